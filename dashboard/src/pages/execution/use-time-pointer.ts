/**
 * Moves the view of the time by mouse: Ctrl and wheel looks closer at what is under the pointer, a wheel to the side moves,
 * dragging marks a piece to look at (or moves, once it is a piece; with Shift it marks again), a double click shows all.
 */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { pan, pieceOf, type Span } from "./time-view.ts";
import type { TimeView } from "./use-time-view.ts";

/** A pointer that moved less has clicked. */
const DRAG_PX = 4;
/** So much of a wheel makes it e times as long. */
const WHEEL_PX = 300;

/** Places on the axis: 0 is where it begins, 1 where it ends. */
interface Marked {
  readonly from: number;
  readonly to: number;
}

interface Listening {
  readonly element: HTMLElement;
  readonly view: () => TimeView;
  readonly signal: AbortSignal;
}

/** Listens on an element with lanes; gives the piece that is being marked. */
export function useTimePointer(box: RefObject<HTMLElement | null>, view: TimeView): Marked | null {
  const [marked, setMarked] = useState<Marked | null>(null);
  const latest = useRef(view);
  latest.current = view;
  useEffect(() => {
    const element = box.current;
    if (element === null) return;
    const stop = new AbortController();
    const listening: Listening = { element, view: () => latest.current, signal: stop.signal };
    followWheel(listening);
    followDrag(listening, setMarked);
    element.addEventListener("dblclick", () => latest.current.reset(), { signal: stop.signal });
    return () => stop.abort();
  }, []);
  return marked;
}

/** Where on the axis something is; null: beside it. */
function placeOf(element: HTMLElement, x: number): number | null {
  const track = element.querySelector(".lane-track")?.getBoundingClientRect();
  return track === undefined || track.width === 0 || x < track.left ? null : (x - track.left) / track.width;
}

function followWheel({ element, view, signal }: Listening): void {
  const turn = (event: WheelEvent): void => {
    const place = placeOf(element, event.clientX);
    if (place === null) return;
    if (event.ctrlKey || event.metaKey) view().zoomBy(Math.exp(event.deltaY / WHEEL_PX), place);
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) && !view().isWhole)
      view().panBy(event.deltaX / element.clientWidth);
    else return;
    event.preventDefault();
  };
  element.addEventListener("wheel", turn, { signal, passive: false });
}

function followDrag({ element, view, signal }: Listening, setMarked: (marked: Marked | null) => void): void {
  let drag: { x: number; place: number; span: Span; marks: boolean; isMoved: boolean } | null = null;
  const begin = (event: PointerEvent): void => {
    const place = placeOf(element, event.clientX);
    // Fingers scroll the page.
    if (place === null || event.button !== 0 || event.pointerType === "touch") return;
    const { span, isWhole } = view();
    drag = { x: event.clientX, place, span, marks: isWhole || event.shiftKey, isMoved: false };
  };
  const move = (event: PointerEvent): void => {
    if (drag === null || (!drag.isMoved && Math.abs(event.clientX - drag.x) < DRAG_PX)) return;
    drag.isMoved = true;
    const place = Math.min(1, placeOf(element, event.clientX) ?? 0);
    if (drag.marks) setMarked({ from: drag.place, to: place });
    else view().show(pan(drag.span, drag.place - place));
  };
  const end = (event: PointerEvent): void => {
    if (drag === null) return;
    const { isMoved, marks, span, place } = drag;
    drag = null;
    setMarked(null);
    if (!isMoved) return;
    if (marks) view().show(pieceOf(span, place, Math.min(1, placeOf(element, event.clientX) ?? 0)));
    // A drag is no click on the lane under it.
    const swallow = (click: MouseEvent): void => click.stopPropagation();
    addEventListener("click", swallow, { capture: true, once: true });
    setTimeout(() => removeEventListener("click", swallow, { capture: true }));
  };
  element.addEventListener("pointerdown", begin, { signal });
  addEventListener("pointermove", move, { signal });
  addEventListener("pointerup", end, { signal });
  addEventListener("pointercancel", end, { signal });
}
