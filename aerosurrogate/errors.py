"""The one exception for what a user can get wrong: shown without a traceback, exit code 2."""


class InputError(Exception):
    """What happened, the value seen, and the command or option that settles it.

    >>> print(InputError("no such file", seen="car.stl", remedy="give the path of a mesh"))
    no such file: car.stl. To fix it: give the path of a mesh
    """

    def __init__(self, what: str, *, seen: object = None, remedy: str = "") -> None:
        self.what, self.seen, self.remedy = what, seen, remedy
        super().__init__(what)

    def __str__(self) -> str:
        text = self.what if self.seen is None else f"{self.what}: {self.seen}"
        return f"{text}. To fix it: {self.remedy}" if self.remedy else text

    def __reduce__(self) -> tuple[object, ...]:
        # Keyword-only arguments do not survive default pickling, and worker processes raise this too.
        return _rebuild, (self.what, self.seen, self.remedy)


def _rebuild(what: str, seen: object, remedy: str) -> InputError:
    return InputError(what, seen=seen, remedy=remedy)
