/** Lists of executions by their order numbers, newest first, and how they are put together. */

/** Executions by order, newest first; `floor` says from which order on these are all there are, 0: to the end. */
export interface FoundOrders {
  readonly orders: readonly number[];
  readonly floor: number;
}

/** A list that was read up to a number of items: if it has as many, there may be more below. */
export function ordersUpTo(orders: readonly number[], max: number): FoundOrders {
  return { orders, floor: orders.length < max ? 0 : (orders.at(-1) ?? 0) };
}

/** What any of the lists holds, at most `max`, down to where all of them are complete. */
export function inAny(lists: readonly FoundOrders[], max: number): FoundOrders {
  const floor = Math.max(0, ...lists.map((list) => list.floor));
  const orders = [...new Set(lists.flatMap((list) => list.orders))]
    .filter((order) => order >= floor)
    .sort((a, b) => b - a);
  if (orders.length <= max) return { orders, floor };
  return { orders: orders.slice(0, max), floor: orders[max - 1] as number };
}

/**
 * What all lists hold, down to where that is all. One that is complete to the end is enough: of the others only what they
 * cover is compared, the rest is for whoever looks at the executions.
 */
export function inAll(lists: readonly FoundOrders[]): FoundOrders {
  const complete = lists.filter(({ floor }) => floor === 0).sort((a, b) => a.orders.length - b.orders.length);
  const floor = complete.length > 0 ? 0 : Math.max(...lists.map((list) => list.floor));
  const [first = { orders: [], floor: 0 }] = complete.length > 0 ? complete : lists;
  const others = lists
    .filter((list) => list !== first)
    .map((list) => ({ floor: list.floor, orders: new Set(list.orders) }));
  const orders = first.orders.filter(
    (order) => order >= floor && others.every((list) => order < list.floor || list.orders.has(order)),
  );
  return { orders, floor };
}
