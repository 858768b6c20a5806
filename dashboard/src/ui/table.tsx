/**
 * A virtual table: it renders only the visible rows, whatever their number. All rows have the same height. The arrow keys move
 * the selection; Enter opens the row.
 */
import type { ComponentChildren, RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  readonly id: string;
  readonly head: ComponentChildren;
  /** The width of a column in CSS grid notation: `120px`, `minmax(160px, 2fr)`. */
  readonly width: string;
  readonly cell: (row: T, index: number, isNarrow: boolean) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Whether the column is left out on narrow pages. */
  readonly isExtra?: boolean;
  /** The order of two rows by this column; without it, rows cannot be sorted by the column. */
  readonly compare?: (a: T, b: T) => number;
}

/** The column by which rows are sorted. */
export interface Sort {
  readonly id: string;
  readonly isDown: boolean;
}

export interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly onOpen?: (row: T) => void;
  /** Called with the visible rows. */
  readonly onView?: (rows: readonly T[]) => void;
  /** Called when the last rows become visible. */
  readonly onEnd?: (() => void) | undefined;
  readonly rowHeight?: number;
  /** The height of a row on narrow pages, if it is another one there. */
  readonly narrowHeight?: number;
  /** The greatest height; a table with few rows is lower. `fill` is the rest of the window. */
  readonly height?: number | "fill";
  readonly foot?: ComponentChildren;
  /** Whether the table stays scrolled to its end as rows are added, unless the user has scrolled away. */
  readonly isAtEnd?: boolean;
  /** The key of the highlighted row, which is scrolled into view. */
  readonly chosen?: string | null;
  /** The column by which the rows are sorted; null for the order in which they are given. */
  readonly sort?: Sort | null;
  /** Called when the user chooses a column to sort by. */
  readonly onSort?: (sort: Sort | null) => void;
}

const EXTRA_FROM = 740;
const BEYOND = 8;

interface View {
  readonly top: number;
  readonly height: number;
  readonly width: number;
}

export function Table<T>(props: TableProps<T>) {
  const { label, rows, height = "fill", foot } = props;
  const box = useRef<HTMLDivElement>(null);
  const view = useView(box);
  const [active, setActive] = useState(0);
  const isNarrow = view.width < EXTRA_FROM;
  const rowHeight = heightOf(props, isNarrow);
  const columns = isNarrow ? props.columns.filter(({ isExtra }) => isExtra !== true) : props.columns;
  const from = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const to = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  useTelling(props, { from, to });
  useStayingAtEnd(box, props.isAtEnd === true, rows.length);
  useSeeingChosen(box, props, rowHeight);
  const walk = (by: number): void => {
    const next = Math.min(rows.length - 1, Math.max(0, active + by));
    setActive(next);
    if (box.current !== null) bringIntoView(box.current, next * rowHeight, rowHeight);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== event.currentTarget) return;
    const page = Math.floor(view.height / rowHeight) - 2;
    const steps: Record<string, number> = {
      ArrowDown: 1,
      ArrowUp: -1,
      j: 1,
      k: -1,
      PageDown: page,
      PageUp: -page,
    };
    const by = steps[event.key];
    const row = rows[active];
    if (by !== undefined) {
      event.preventDefault();
      walk(by);
    } else if (event.key === "Enter" && row !== undefined) props.onOpen?.(row);
  };
  const grid = { gridTemplateColumns: columns.map(({ width }) => width).join(" ") };
  return (
    <div
      ref={box}
      class={`table${height === "fill" ? " fill" : ""}`}
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      tabIndex={0}
      style={height === "fill" ? undefined : { maxHeight: `${height}px` }}
      onKeyDown={onKeyDown}
    >
      <div class="table-head" role="rowgroup">
        <div class="tr" role="row" aria-rowindex={1} style={grid}>
          {columns.map((column) => (
            <Head key={column.id} column={column} sort={props.sort ?? null} onSort={props.onSort} />
          ))}
        </div>
      </div>
      <div class="table-body" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(from, to).map((row, i) => (
          <Row
            key={props.keyOf(row)}
            {...props}
            columns={columns}
            row={row}
            index={from + i}
            isActive={from + i === active}
            isNarrow={isNarrow}
          />
        ))}
      </div>
      {foot === undefined ? null : <div class="table-foot">{foot}</div>}
    </div>
  );
}

/** The head of a column. A click sorts by the column: downwards first, then upwards, then not. */
function Head<T>({
  column,
  sort,
  onSort,
}: {
  readonly column: Column<T>;
  readonly sort: Sort | null;
  readonly onSort: ((sort: Sort | null) => void) | undefined;
}) {
  const { id, head, isNumber, compare } = column;
  const kind = isNumber === true ? "td num" : "td";
  if (compare === undefined || onSort === undefined)
    return (
      <div role="columnheader" class={kind}>
        {head}
      </div>
    );
  const isDown = sort?.id === id ? sort.isDown : null;
  const next = isDown === null ? { id, isDown: true } : isDown ? { id, isDown: false } : null;
  return (
    <div
      role="columnheader"
      class={kind}
      aria-sort={isDown === null ? "none" : isDown ? "descending" : "ascending"}
    >
      <button type="button" class="sort" title="Sort by this column" onClick={() => onSort(next)}>
        {head}
        <span aria-hidden="true">{isDown === null ? "↕" : isDown ? "↓" : "↑"}</span>
      </button>
    </div>
  );
}

/** Sorts rows by a column. */
export function sorted<T>(
  rows: readonly T[],
  columns: readonly Column<T>[],
  sort: Sort | null,
): readonly T[] {
  const compare = columns.find(({ id }) => id === sort?.id)?.compare;
  if (compare === undefined || sort === null) return rows;
  return rows.toSorted((a, b) => (sort.isDown ? compare(b, a) : compare(a, b)));
}

function Row<T>(
  props: TableProps<T> & {
    readonly row: T;
    readonly index: number;
    readonly isActive: boolean;
    readonly isNarrow: boolean;
  },
) {
  const { row, index, columns, isActive, isNarrow, onOpen, keyOf, chosen } = props;
  const rowHeight = heightOf(props, isNarrow);
  const kinds = [
    "tr",
    onOpen === undefined ? "" : "opens",
    isActive ? "active" : "",
    keyOf(row) === chosen ? "chosen" : "",
  ];
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      class={kinds.filter(Boolean).join(" ")}
      style={{
        gridTemplateColumns: columns.map(({ width }) => width).join(" "),
        height: `${rowHeight}px`,
        transform: `translateY(${index * rowHeight}px)`,
      }}
      onClick={(event) => {
        if (onOpen === undefined || String(getSelection()) !== "") return;
        if (event.target instanceof Element && event.target.closest("a,button,input") !== null) return;
        onOpen(row);
      }}
    >
      {columns.map((column) => (
        <div key={column.id} role="cell" class={column.isNumber === true ? "td num" : "td"}>
          {column.cell(row, index, isNarrow)}
        </div>
      ))}
    </div>
  );
}

function heightOf<T>({ rowHeight = 36, narrowHeight }: TableProps<T>, isNarrow: boolean): number {
  return isNarrow ? (narrowHeight ?? rowHeight) : rowHeight;
}

/** The range of rows that is visible. */
function useView(box: RefObject<HTMLDivElement | null>): View {
  const [view, setView] = useState<View>({ top: 0, height: 600, width: 1_200 });
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = (): void =>
      setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    look();
    element.addEventListener("scroll", look, { passive: true });
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    return () => {
      element.removeEventListener("scroll", look);
      watcher.disconnect();
    };
  }, []);
  return view;
}

function useTelling<T>(
  { rows, onEnd, onView }: TableProps<T>,
  { from, to }: { from: number; to: number },
): void {
  useEffect(() => {
    if (rows.length > 0 && to >= rows.length - 2) onEnd?.();
  }, [to, rows.length]);
  useEffect(() => onView?.(rows.slice(from, to)), [from, to, rows]);
}

function useStayingAtEnd(box: RefObject<HTMLDivElement | null>, isAtEnd: boolean, rows: number): void {
  const wasAtEnd = useRef(true);
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || !isAtEnd) return;
    if (wasAtEnd.current) element.scrollTop = element.scrollHeight;
    const look = (): void => {
      wasAtEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 40;
    };
    element.addEventListener("scroll", look, { passive: true });
    return () => element.removeEventListener("scroll", look);
  }, [isAtEnd, rows]);
}

function useSeeingChosen<T>(
  box: RefObject<HTMLDivElement | null>,
  { rows, chosen, keyOf }: TableProps<T>,
  rowHeight: number,
): void {
  const index = typeof chosen === "string" ? rows.findIndex((row) => keyOf(row) === chosen) : -1;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null || index < 0) return;
    const top = index * rowHeight;
    const isSeen =
      top >= element.scrollTop && top + 2 * rowHeight <= element.scrollTop + element.clientHeight;
    if (!isSeen) element.scrollTop = top - (element.clientHeight - 2 * rowHeight) / 2;
  }, [chosen, index >= 0]);
}

function bringIntoView(box: HTMLElement, top: number, rowHeight: number): void {
  if (top < box.scrollTop) box.scrollTop = top;
  else if (top + 2 * rowHeight > box.scrollTop + box.clientHeight)
    box.scrollTop = top + 2 * rowHeight - box.clientHeight;
}
