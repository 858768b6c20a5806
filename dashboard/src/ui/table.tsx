/**
 * A table that draws only the rows that are seen, whatever their number. Rows have one height. It can be walked by the
 * arrow keys; Enter opens the row.
 */
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<T> {
  readonly id: string;
  readonly head: ComponentChildren;
  /** As CSS grid writes it: `120px`, `minmax(160px, 2fr)`. */
  readonly width: string;
  readonly cell: (row: T, index: number) => ComponentChildren;
  readonly isNumber?: boolean;
  /** Left out where the page is narrow. */
  readonly isExtra?: boolean;
}

export interface TableProps<T> {
  readonly label: string;
  readonly columns: readonly Column<T>[];
  readonly rows: readonly T[];
  readonly keyOf: (row: T) => string;
  readonly onOpen?: (row: T) => void;
  /** Told which rows are seen. */
  readonly onView?: (rows: readonly T[]) => void;
  /** Called when the last rows come into sight. */
  readonly onEnd?: (() => void) | undefined;
  readonly rowHeight?: number;
  /** How high it is at most; it is as high as its rows if they are fewer. `fill`: the rest of the window. */
  readonly height?: number | "fill";
  readonly foot?: ComponentChildren;
}

const EXTRA_FROM = 860;
const BEYOND = 8;

/** The table. */
export function Table<T>(props: TableProps<T>) {
  const { label, rows, keyOf, onOpen, onEnd, onView, rowHeight = 36, height = "fill", foot } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600, width: 1_200 });
  const [active, setActive] = useState(0);
  const columns =
    view.width < EXTRA_FROM ? props.columns.filter(({ isExtra }) => isExtra !== true) : props.columns;
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const look = (): void =>
      setView({ top: element.scrollTop, height: element.clientHeight, width: element.clientWidth });
    look();
    const watcher = new ResizeObserver(look);
    watcher.observe(element);
    return () => watcher.disconnect();
  }, []);
  const from = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const to = Math.min(rows.length, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  useEffect(() => {
    if (rows.length > 0 && to >= rows.length - 2) onEnd?.();
  }, [to, rows.length]);
  useEffect(() => onView?.(rows.slice(from, to)), [from, to, rows]);
  const walk = (by: number): void => {
    const next = Math.min(rows.length - 1, Math.max(0, active + by));
    setActive(next);
    const element = box.current;
    if (element === null) return;
    const top = next * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + 2 * rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = top + 2 * rowHeight - element.clientHeight;
  };
  const grid = { gridTemplateColumns: columns.map(({ width }) => width).join(" ") };
  const limit = height === "fill" ? undefined : { maxHeight: `${height}px` };
  return (
    <div
      ref={box}
      class={`table${height === "fill" ? " fill" : ""}`}
      role="table"
      aria-label={label}
      aria-rowcount={rows.length + 1}
      tabIndex={0}
      style={limit}
      onScroll={(event) => {
        const { scrollTop: top, clientHeight, clientWidth } = event.currentTarget;
        setView({ top, height: clientHeight, width: clientWidth });
      }}
      onKeyDown={(event) => {
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
        if (by !== undefined) {
          event.preventDefault();
          walk(by);
        } else if (event.key === "Enter") {
          const row = rows[active];
          if (row !== undefined) onOpen?.(row);
        }
      }}
    >
      <div class="table-head" role="rowgroup">
        <div class="tr" role="row" aria-rowindex={1} style={grid}>
          {columns.map((column) => (
            <div key={column.id} role="columnheader" class={column.isNumber === true ? "td num" : "td"}>
              {column.head}
            </div>
          ))}
        </div>
      </div>
      <div class="table-body" role="rowgroup" style={{ height: `${rows.length * rowHeight}px` }}>
        {rows.slice(from, to).map((row, i) => (
          <div
            key={keyOf(row)}
            role="row"
            aria-rowindex={from + i + 2}
            class={`tr${onOpen === undefined ? "" : " opens"}${from + i === active ? " active" : ""}`}
            style={{
              ...grid,
              height: `${rowHeight}px`,
              transform: `translateY(${(from + i) * rowHeight}px)`,
            }}
            onClick={(event) => {
              if (onOpen === undefined || String(getSelection()) !== "") return;
              if (event.target instanceof Element && event.target.closest("a,button,input") !== null) return;
              onOpen(row);
            }}
          >
            {columns.map((column) => (
              <div key={column.id} role="cell" class={column.isNumber === true ? "td num" : "td"}>
                {column.cell(row, from + i)}
              </div>
            ))}
          </div>
        ))}
      </div>
      {foot === undefined ? null : <div class="table-foot">{foot}</div>}
    </div>
  );
}
