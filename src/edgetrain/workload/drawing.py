"""Draws JPEG pictures that take as long to decode as photographs: fractal texture, edges, soft colour.

Noise or flat colour would be wrong: decoding time follows the coefficients that are left after quantisation, and
reading time follows the bytes. Like photographs, these pictures have an amplitude spectrum near 1/f, hard edges and
slowly varying colour. A picture follows from (seed, index) alone.
"""

from __future__ import annotations

import io
import math
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Callable

import numpy as np

if TYPE_CHECKING:
    Plane = np.ndarray[Any, np.dtype[Any]]

BANK = 1024  # side of a texture; pictures are cut from it
QUALITY = 85  # what photo sites write
DENSE = 3.4  # bits per pixel above which pictures count as barely compressed, as in ImageNet
DENSE_QUALITY = 93
SIGMA = 0.35  # of the log of file sizes: photographs of one resolution differ by about a third
NEAR = 0.12  # how near to its drawn size a file must come before we stop trying
TRIES = 3  # encodings of one picture
STRENGTH = (4.0, 50.0)  # of the texture, in grey levels: weaker is a drawing, stronger clips to black and white
FIRST = 20.0  # the strength that gives a file of the mean size
GROWTH = 0.5  # a file grows about with the square root of its texture's strength (12 pictures at 6 strengths)


@lru_cache(maxsize=2)
def texture_bank(seed: int) -> tuple[Plane, ...]:
    """Return textures with amplitude spectra about f^-1, the last one softer for colour, mean 0 and deviation 1."""
    rng = np.random.default_rng([seed, 0x7E47])
    fy = np.fft.fftfreq(BANK)[:, None]
    fx = np.fft.rfftfreq(BANK)[None, :]
    frequency = np.sqrt(fy * fy + fx * fx)
    frequency[0, 0] = 1.0
    textures = []
    for slope in (0.95, 1.05, 1.15, 1.5):
        phase = rng.uniform(0, 2 * math.pi, frequency.shape)
        plane = np.fft.irfft2(np.exp(1j * phase) * frequency**-slope, s=(BANK, BANK))
        plane -= plane.mean()
        textures.append((plane / plane.std()).astype(np.float32))
    return tuple(textures)


def _cut(rng: np.random.Generator, texture: Plane, width: int, height: int) -> Plane:
    """Return a random window of a texture (textures wrap), mirrored at random."""
    top, left = rng.integers(0, BANK, 2)
    plane = texture
    if top + height > BANK or left + width > BANK:
        plane = np.roll(plane, (-int(top), -int(left)), (0, 1))
        top = left = 0
    plane = plane[top : top + height, left : left + width]
    return plane[:, ::-1] if rng.random() < 0.5 else plane


def _shapes(rng: np.random.Generator, width: int, height: int) -> tuple[Any, Any, Any]:
    """Draw what a landmark is made of, towers, roofs and arches, as three planes: brightness and two colours."""
    from PIL import Image, ImageDraw

    horizon = int(height * rng.uniform(0.35, 0.75))
    planes = []
    for sky, ground in ((rng.uniform(120, 235), rng.uniform(50, 150)), *rng.uniform(108, 150, (2, 2))):
        ramp = np.linspace(sky, ground, height)[:, None] * np.ones((1, 2))
        planes.append(Image.fromarray(ramp.astype(np.uint8), "L").resize((width, height)))
    pens = [ImageDraw.Draw(plane) for plane in planes]

    def draw(kind: str, *where: Any) -> None:
        colours = rng.integers(40, 220), rng.integers(100, 156), rng.integers(100, 156)
        for pen, colour in zip(pens, colours):
            getattr(pen, kind)(*where, fill=int(colour))

    for _ in range(int(rng.integers(2, 7))):
        x, w = rng.integers(0, width), rng.integers(width // 16, width // 3)
        top = rng.integers(height // 10, horizon)
        base = min(height, horizon + int(rng.integers(10, height // 4)))
        draw("rectangle", (int(x), int(top), int(x + w), base))
        if rng.random() < 0.6:
            draw("polygon", [(int(x), int(top)), (int(x + w), int(top)), (int(x + w // 2), int(top * 0.6))])
        for row in range(int(top) + 12, base - 12, max(14, height // 22)):
            for column in range(int(x) + 8, int(x + w) - 8, max(12, width // 36)):
                draw("rectangle", (column, row, column + 5, row + 9))
    for _ in range(int(rng.integers(0, 6))):
        x, y, r = rng.integers(0, width), rng.integers(horizon, height), rng.integers(8, height // 6)
        draw("ellipse", (int(x - r), int(y - r), int(x + r), int(y + r)))
    return planes[0], planes[1], planes[2]


def drawn_size_bytes(rng: np.random.Generator, mean_bytes: float) -> float:
    """Draw a file's size: log-normal around the dataset's mean, as photo collections are."""
    return float(mean_bytes * math.exp(rng.normal(-SIGMA * SIGMA / 2, SIGMA)))


def jpeg(seed: int, index: int, size: tuple[int, int], mean_bytes: int) -> bytes:
    """Return picture `index` as a JPEG file of about its drawn size."""
    from PIL import Image

    width, height = size
    rng = np.random.default_rng([seed, index])
    wanted = drawn_size_bytes(rng, mean_bytes)
    bank = texture_bank(seed)
    bright, *colours = _shapes(rng, width, height)
    texture = _cut(rng, bank[int(rng.integers(len(bank) - 1))], width, height)
    half = (width // 2, height // 2)
    tinted = []
    for colour in colours:
        soft = _cut(rng, bank[-1], *half) * np.float32(rng.uniform(3, 9))
        wave = Image.fromarray(np.clip(soft + 128, 0, 255).astype(np.uint8), "L").resize(size)
        plane = np.asarray(colour, np.int16) + np.asarray(wave, np.int16) - 128
        tinted.append(Image.fromarray(np.clip(plane, 0, 255).astype(np.uint8), "L"))
    base = np.asarray(bright, np.float32)

    def encode(strength: float, quality: int) -> bytes:
        plane = np.clip(base + texture * np.float32(strength), 0, 255).astype(np.uint8)
        picture = Image.merge("YCbCr", (Image.fromarray(plane, "L"), *tinted))
        file = io.BytesIO()
        picture.save(file, "JPEG", quality=quality)
        return file.getvalue()

    dense = 8 * mean_bytes / (width * height) > DENSE
    return _met(encode, wanted, FIRST * wanted / mean_bytes, DENSE_QUALITY if dense else QUALITY)


def _met(encode: Callable[[float, int], bytes], wanted: float, strength: float, quality: int) -> bytes:
    """Encode until the file is near its wanted size: by the texture's strength, then by the quality."""
    best = b""
    for _ in range(TRIES):
        data = encode(strength, quality)
        ratio = wanted / len(data)
        if not best or abs(math.log(ratio)) < abs(math.log(wanted / len(best))):
            best = data
        if abs(ratio - 1) <= NEAR:
            break
        stronger = strength * ratio ** (1 / GROWTH)
        strength = min(max(stronger, STRENGTH[0]), STRENGTH[1])
        left = (stronger / strength) ** GROWTH  # what the texture cannot give, the quality must
        if abs(left - 1) > NEAR:
            quality = min(max(round(100 - (100 - quality) / left**1.4), 50), 97)
    return best
