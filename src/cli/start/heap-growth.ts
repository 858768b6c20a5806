/**
 * Limits how much the heap of a server grows between two full garbage collections. By default V8 allows up to four times the live
 * objects, so a server with 80 MB of them takes 500 MB. A fixed small percentage makes a small heap pay for a full collection every few
 * hundred executions. So the heap may grow by a share of the live objects or by a fixed size, whichever is more.
 */
import { constants, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** The growth of a large heap, in per cent of its live objects. */
const SHARE_MIN = 40;
/** The growth of a small heap, in per cent of its live objects. The store's thread has a smaller heap, for which the same share counts. */
const SHARE_MAX = 200;
/** The growth of the heaps in between. */
const GROWTH_BYTES = 100 * 1_048_576;

/** How much a heap may grow, in per cent of its live objects. */
export function growthOf(liveBytes: number): number {
  const share = Math.round((GROWTH_BYTES / Math.max(1, liveBytes)) * 100);
  return Math.min(SHARE_MAX, Math.max(SHARE_MIN, share));
}

/**
 * Sets the growth now and after each full collection, when most of the old generation is live objects. Returns a function that ends that. If V8
 * does not know the flag, it says so on stderr, and the server runs anyway.
 */
export function limitHeapGrowth(): () => void {
  let current = 0;
  const update = (): void => {
    const growth = growthOf(oldBytes());
    if (growth === current) return;
    current = growth;
    setFlagsFromString(`--heap-growing-percent=${growth}`);
  };
  const observer = new PerformanceObserver((list) => {
    const isFull = list.getEntries().some((entry) => kindOf(entry) === constants.NODE_PERFORMANCE_GC_MAJOR);
    if (isFull) update();
  });
  observer.observe({ entryTypes: ["gc"] });
  update();
  return () => observer.disconnect();
}

/** The size of the objects of the old generation. Young objects are not counted, because most of them die soon. */
function oldBytes(): number {
  let bytes = 0;
  for (const { space_name: name, space_used_size: used } of getHeapSpaceStatistics())
    if (!name.startsWith("new_")) bytes += used;
  return bytes;
}

/** The kind of a garbage collection. The types of browsers, which are loaded too, do not know this field. */
function kindOf(entry: object): number | undefined {
  return (entry as { readonly detail?: { readonly kind?: number } }).detail?.kind;
}
