"""The losses of a run on their way into its log. One that is not finite ends the run."""

import math
import statistics

from aerosurrogate.errors import InputError
from aerosurrogate.training.batches import Batches
from aerosurrogate.training.launched import Launched
from aerosurrogate.training.run import Run


class Log:
    """Takes the figures of steps as they arrive; every so many steps a line with their mean."""

    def __init__(self, run: Run, batches: Batches, every: int, seconds: float) -> None:
        self.run, self.batches, self.every = run, batches, every
        self.figures: dict[str, str] = {}  # for the progress bar
        self._losses: list[float] = []
        self._points, self._since = 0, seconds  # trained on since the last line, which was then

    def take(self, done: Launched) -> None:
        loss, norm = done.figures.read()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._stop(done, "loss" if not math.isfinite(loss) else "gradient")
        self._losses.append(loss)
        self._points += done.points
        self.figures |= {"loss": f"{loss:.4g}", "lr": f"{done.rate:.2g}"}
        if done.step % self.every == 0:
            rate = self._points / max(done.seconds - self._since, 1e-9)
            line = {"loss": statistics.fmean(self._losses), "points_per_second": round(rate)}
            self.run.log(self._place(done) | line)
            self.figures["points/s"] = f"{rate:.3g}"
            self._losses, self._points, self._since = [], 0, done.seconds

    def _place(self, done: Launched) -> dict[str, float]:
        return self.batches.place(done.step) | {"seconds": round(done.seconds, 2), "learning_rate": done.rate}

    def _stop(self, done: Launched, what: str) -> None:
        self.run.log(self._place(done) | {"event": f"{what} not finite", "cases": done.cases})
        raise InputError(
            f"the {what} is not finite at step {done.step}",
            seen=f"case {', '.join(done.cases)}",
            remedy="look at that case's fields; try a smaller training.learning_rate or training.clip=0.1; "
            "--resume goes on from the last checkpoint",
        )
