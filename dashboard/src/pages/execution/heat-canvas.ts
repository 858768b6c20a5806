/** Puts a byte per task onto a canvas as cells, pixel by pixel: a million of them in a few milliseconds. */
import { TASK_STATES } from "../../api/shapes.ts";
import { type HeatBy, type HeatStates, type LegendEntry, valueOf } from "./heat-legend.ts";

export interface Grid {
  /** Of a cell, in CSS pixels. */
  readonly size: number;
  readonly columns: number;
  readonly rows: number;
}

const SIZES = [14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1];
const HEIGHT = 400;
/** Cells below this size are hard to see alone; so many of them are made larger. */
const SMALL = 4;
const ENLARGED_MAX = 20_000;

/** The largest cells with which all fit; the smallest ones if they never do. */
export function gridOf(total: number, width: number): Grid {
  for (const size of SIZES) {
    const columns = Math.max(1, Math.floor(width / size));
    const rows = Math.ceil(total / columns);
    if (rows * size <= HEIGHT || size === 1)
      return { size, columns: Math.min(columns, Math.max(total, 1)), rows };
  }
  return { size: 1, columns: 1, rows: total };
}

/** Draws all cells, and a frame around the chosen one. */
export function drawHeat(
  canvas: HTMLCanvasElement,
  parts: {
    readonly states: HeatStates;
    readonly by: HeatBy;
    readonly grid: Grid;
    readonly legend: readonly LegendEntry[];
    readonly chosen: number | null;
  },
): void {
  const { states, by, grid, legend, chosen } = parts;
  const ratio = grid.size <= 2 ? 1 : Math.min(2, Math.max(1, Math.round(devicePixelRatio)));
  const cell = grid.size * ratio;
  const width = grid.columns * cell;
  const height = grid.rows * cell;
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d");
  if (pen === null || width === 0 || height === 0) return;
  const image = pen.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = packedColours(by, legend);
  const gap = grid.size >= 4 ? ratio : 0;
  const side = cell - gap;
  const { bytes } = states;
  const { columns } = grid;
  for (let n = 0, column = 0, row = 0; n < bytes.length; n++) {
    const colour = colours[bytes[n] as number] as number;
    let at = row * cell * width + column * cell;
    for (let y = 0; y < side; y++, at += width) pixels.fill(colour, at, at + side);
    if (++column === columns) {
      column = 0;
      row++;
    }
  }
  if (by === "state" && grid.size < SMALL) enlargeFailures(pixels, bytes, { grid, cell, width, height });
  pen.putImageData(image, 0, 0);
  if (chosen === null || chosen >= bytes.length) return;
  pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink");
  pen.lineWidth = Math.max(2, ratio * 2);
  const reach = Math.max(cell + 2, 8 * ratio);
  const middle = cell / 2;
  const x = (chosen % columns) * cell + middle - reach / 2;
  const y = Math.floor(chosen / columns) * cell + middle - reach / 2;
  pen.strokeRect(x, y, reach, reach);
}

/** Where cells are small, failures are drawn larger than they are, so that none is overlooked. */
function enlargeFailures(
  pixels: Uint32Array,
  bytes: Uint8Array,
  { grid, cell, width, height }: { grid: Grid; cell: number; width: number; height: number },
): void {
  const failed = TASK_STATES.indexOf("failed");
  for (let n = 0, left = ENLARGED_MAX; n < bytes.length && left > 0; n++) {
    if (((bytes[n] as number) & 15) !== failed) continue;
    left--;
    const x = (n % grid.columns) * cell;
    const y = Math.floor(n / grid.columns) * cell;
    const colour = pixels[y * width + x] as number;
    for (let dy = 0; dy < SMALL && y + dy < height; dy++)
      pixels.fill(colour, (y + dy) * width + x, (y + dy) * width + Math.min(width, x + SMALL));
  }
}

/** The colour of every byte, as a pixel has it. */
function packedColours(by: HeatBy, legend: readonly LegendEntry[]): Uint32Array {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const byValue = new Map<number, number>();
  for (const { value, colour } of legend) {
    if (pen === null) break;
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [r = 0, g = 0, b = 0] = pen.getImageData(0, 0, 1, 1).data;
    byValue.set(value, (255 << 24) | (b << 16) | (g << 8) | r);
  }
  const colours = new Uint32Array(256);
  for (let byte = 0; byte < 256; byte++) colours[byte] = byValue.get(valueOf(by, byte)) ?? 0;
  return colours;
}
