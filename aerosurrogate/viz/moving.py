"""Times of a case as an animation: GIF, MP4 where ffmpeg is installed, or a page with a slider that opens offline."""

import base64
import html
import io
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from aerosurrogate.errors import InputError
from aerosurrogate.writing import replacing, write_text

SECONDS = 0.25  # a frame
DPI = 80
Image = NDArray[np.uint8]


def frame(figure: Figure, *, titled: bool = True) -> Image:
    """A figure as (height, width, 3), sides even as video wants them; without its title for pages, which say it."""
    figure.set_dpi(DPI)
    if not titled:
        figure.suptitle("")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[..., :3]
    return np.ascontiguousarray(pixels[: len(pixels) // 2 * 2, : pixels.shape[1] // 2 * 2])


def write_gif(frames: Sequence[Image], out: Path) -> None:
    from PIL import Image as Pillow

    first, *rest = [Pillow.fromarray(image) for image in frames]
    with replacing(out) as temporary:
        first.save(temporary, save_all=True, append_images=rest, duration=int(1000 * SECONDS), loop=0)


def write_mp4(frames: Sequence[Image], out: Path) -> None:
    program = shutil.which("ffmpeg")
    if program is None:
        remedy = f"install ffmpeg, or give --out {out.with_suffix('.gif')}"
        raise InputError("MP4 needs the program ffmpeg, which is not installed", seen=out, remedy=remedy)
    height, width = frames[0].shape[:2]
    given = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", f"{1 / SECONDS:g}", "-i", "-"]
    with replacing(out) as temporary:
        command = [program, "-y", "-loglevel", "error", *given, "-pix_fmt", "yuv420p", str(temporary)]
        done = subprocess.run(command, input=b"".join(image.tobytes() for image in frames), capture_output=True)
        if done.returncode:
            raise InputError("ffmpeg could not write the film", seen=done.stderr.decode(errors="replace")[-300:])


def write_page(frames: Sequence[Image], names: Sequence[str], title: str, out: Path) -> None:
    """One picture, or a slider over several."""
    from PIL import Image as Pillow

    pictures = []
    for image in frames:
        file = io.BytesIO()
        Pillow.fromarray(image).save(file, "PNG", optimize=True)
        pictures.append(f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}")
    hidden = "" if len(pictures) > 1 else " hidden"
    shown = [
        f"<img src='{picture}' alt='{html.escape(name)}'{'' if number == 0 else ' hidden'}>"
        for number, (picture, name) in enumerate(zip(pictures, names, strict=True))
    ]
    write_text(
        out,
        f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title><link rel="icon" href="data:,">
<style>body{{font:15px/1.45 system-ui,sans-serif;margin:1.2em;color:#222}}h1{{font-size:1.15em;font-weight:600}}
img{{max-width:100%}}input{{width:min(40em,60%);vertical-align:middle}}[hidden]{{display:none}}</style></head>
<body><h1>{html.escape(title)}</h1>
<p{hidden}><button id="play">play</button> <input id="slider" type="range" min="0" max="{len(pictures) - 1}" value="0">
<span id="name">{html.escape(names[0])}</span></p>
<div id="pictures">{"".join(shown)}</div>
<script>
const slider = document.getElementById("slider"), play = document.getElementById("play");
const pictures = document.querySelectorAll("#pictures img");
let timer = null;
function show() {{
  pictures.forEach((picture, i) => picture.hidden = i != slider.value);
  document.getElementById("name").textContent = pictures[slider.value].alt;
}}
slider.oninput = show;
play.onclick = () => {{
  if (timer) {{ clearInterval(timer); timer = null; play.textContent = "play"; return; }}
  play.textContent = "stop";
  timer = setInterval(() => {{ slider.value = (+slider.value + 1) % pictures.length; show(); }}, {SECONDS * 1000:g});
}};
</script></body></html>
""",
    )
