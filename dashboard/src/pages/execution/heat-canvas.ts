/** Draws one cell per task onto a canvas, pixel by pixel: a million cells in a few milliseconds. */
import { TASK_STATES } from "../../api/shapes.ts";
import { type HeatBy, type HeatStates, type LegendEntry, valueOf } from "./heat-legend.ts";

export interface Grid {
  /** The size of a cell in CSS pixels. */
  readonly size: number;
  readonly columns: number;
  readonly rows: number;
}

const SIZES = [14, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1];
/** The greatest height of the map: the errors above it and the filter below it fit on a screen with it. */
const HEIGHT = 352;
/** Cells below this size are hard to see alone, so failed ones are drawn larger. */
const SMALL = 4;
const ENLARGED_MAX = 20_000;
/** The opacity of pale cells, in the alpha bits of a pixel. */
const PALE = 48 << 24;

/**
 * Computes the largest cells with which all tasks fit. If there are more cells than pixels, a cell is smaller than a pixel.
 */
export function gridOf(total: number, width: number): Grid {
  for (const size of SIZES) {
    const columns = Math.max(1, Math.floor(width / size));
    const rows = Math.ceil(total / columns);
    if (rows * size <= HEIGHT) return { size, columns: Math.min(columns, Math.max(total, 1)), rows };
  }
  const size = Math.sqrt((Math.max(1, width) * HEIGHT) / total);
  const columns = Math.floor(Math.max(1, width) / size);
  return { size, columns, rows: Math.ceil(total / columns) };
}

/** Draws all cells. */
export function drawHeat(
  canvas: HTMLCanvasElement,
  parts: {
    readonly states: HeatStates;
    readonly by: HeatBy;
    readonly grid: Grid;
    readonly legend: readonly LegendEntry[];
    /** One byte per task, 0 for tasks that are drawn pale; null if none is. */
    readonly isBright: Uint8Array | null;
  },
): void {
  const { states, by, grid, legend, isBright } = parts;
  const cell = grid.size < 1 ? 1 : grid.size * ratioOf(grid);
  const width = grid.columns * cell;
  const height = grid.rows * cell;
  canvas.width = width;
  canvas.height = height;
  const pen = canvas.getContext("2d");
  if (pen === null || width === 0 || height === 0) return;
  const image = pen.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = packedColours(by, legend);
  const { bytes } = states;
  fillCells(pixels, bytes, {
    columns: grid.columns,
    cell,
    side: cell - (grid.size >= 4 ? ratioOf(grid) : 0),
    colours,
    isBright,
  });
  if (by === "state" && grid.size < SMALL) enlargeFailures(pixels, bytes, { grid, cell, width, height });
  pen.putImageData(image, 0, 0);
}

/** The number of canvas pixels per CSS pixel. */
function ratioOf({ size }: Grid): number {
  return size <= 2 ? 1 : Math.min(2, Math.max(1, Math.round(devicePixelRatio)));
}

/** Fills the cells: each row of cells is one row of pixels, which is then copied. */
function fillCells(
  pixels: Uint32Array,
  bytes: Uint8Array,
  parts: {
    readonly columns: number;
    readonly cell: number;
    readonly side: number;
    readonly colours: Uint32Array;
    readonly isBright: Uint8Array | null;
  },
): void {
  const { columns, cell, side, colours, isBright } = parts;
  const width = columns * cell;
  for (let first = 0, line = 0; first < bytes.length; first += columns, line += cell * width) {
    const end = Math.min(bytes.length, first + columns);
    for (let n = first, at = line; n < end; n++, at += cell) {
      const colour = colours[bytes[n] as number] as number;
      const shown = isBright === null || isBright[n] === 1 ? colour : (colour & 0xffffff) | PALE;
      if (side === 1) pixels[at] = shown;
      else pixels.fill(shown, at, at + side);
    }
    for (let y = 1; y < side; y++) pixels.copyWithin(line + y * width, line, line + width);
  }
}

/** Draws failures larger where cells are small, so that none is overlooked. */
function enlargeFailures(
  pixels: Uint32Array,
  bytes: Uint8Array,
  { grid, cell, width, height }: { grid: Grid; cell: number; width: number; height: number },
): void {
  const failed = TASK_STATES.indexOf("failed");
  const side = Math.ceil(SMALL / Math.min(1, grid.size));
  for (let n = 0, left = ENLARGED_MAX; n < bytes.length && left > 0; n++) {
    if (((bytes[n] as number) & 15) !== failed) continue;
    left--;
    const x = (n % grid.columns) * cell;
    const y = Math.floor(n / grid.columns) * cell;
    const colour = pixels[y * width + x] as number;
    for (let dy = 0; dy < side && y + dy < height; dy++)
      pixels.fill(colour, (y + dy) * width + x, (y + dy) * width + Math.min(width, x + side));
  }
}

/** The colour of every byte, as the 32 bits of a pixel. */
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
