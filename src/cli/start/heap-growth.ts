/**
 * Limits how much the heap of a server grows between two full garbage collections. By default V8 allows up to four times the live
 * objects, so a server with 80 MB of them takes 500 MB. A fixed small percentage makes a small heap pay for a full collection every few
 * hundred executions. So a large heap may grow by 40 % of its live objects, and a smaller one by 100 MB, but by no more than twice its
 * live objects.
 */
import { constants, PerformanceObserver } from "node:perf_hooks";
import { getHeapSpaceStatistics, setFlagsFromString } from "node:v8";

/** The least growth, in per cent of the live objects. It applies to large heaps. */
const SHARE_MIN = 40;
/** The most growth, in per cent of the live objects. It applies to small heaps, such as that of the store's thread. */
const SHARE_MAX = 200;
/** The growth of the heaps in between. */
const GROWTH_BYTES = 100 * 1_048_576;

/** How much a heap may grow, in per cent of its live objects. */
export function growthOf(liveBytes: number): number {
  const share = Math.round((GROWTH_BYTES / Math.max(1, liveBytes)) * 100);
  return Math.min(SHARE_MAX, Math.max(SHARE_MIN, share));
}

/**
 * Sets the growth now and after each full collection, because then most of the old generation is live. Returns a function that stops
 * the updates. A V8 that does not know the flag says so on stderr at each update, and the server runs anyway.
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
