/** Lists of executions that a search found, by their order number, newest first; and the union and intersection of lists. */

/** The order numbers of executions, newest first. The list has all matches from the order `floor` upwards; with a floor of 0 it has all. */
export interface FoundOrders {
  readonly orders: readonly number[];
  readonly floor: number;
}

/** Makes a list from a read with the limit `max`. If the read returned `max` items, older matches may be missing below the last one. */
export function ordersUpTo(orders: readonly number[], max: number): FoundOrders {
  return { orders, floor: orders.length < max ? 0 : (orders.at(-1) ?? 0) };
}

/**
 * Returns the union of the lists, at most `max` items. Items below the highest floor of the lists are left out, because the
 * union is incomplete there.
 */
export function inAny(lists: readonly FoundOrders[], max: number): FoundOrders {
  const floor = Math.max(0, ...lists.map((list) => list.floor));
  const orders = [...new Set(lists.flatMap((list) => list.orders))]
    .filter((order) => order >= floor)
    .sort((a, b) => b - a);
  if (orders.length <= max) return { orders, floor };
  return { orders: orders.slice(0, max), floor: orders[max - 1] as number };
}

/** Returns the intersection of the lists. Items of a complete list are kept if another list is incomplete there, because they may match. */
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
