/** Lists of executions by their order number, newest first, and their union and intersection. */

/** Executions by their order number, newest first. The list is complete down to the order `floor`; with 0 it is complete. */
export interface FoundOrders {
  readonly orders: readonly number[];
  readonly floor: number;
}

/** Makes a list that was read with a limit: if it has that many items, there may be more below its last one. */
export function ordersUpTo(orders: readonly number[], max: number): FoundOrders {
  return { orders, floor: orders.length < max ? 0 : (orders.at(-1) ?? 0) };
}

/** The union of the lists, at most `max` items, down to the order at which all of them are complete. */
export function inAny(lists: readonly FoundOrders[], max: number): FoundOrders {
  const floor = Math.max(0, ...lists.map((list) => list.floor));
  const orders = [...new Set(lists.flatMap((list) => list.orders))]
    .filter((order) => order >= floor)
    .sort((a, b) => b - a);
  if (orders.length <= max) return { orders, floor };
  return { orders: orders.slice(0, max), floor: orders[max - 1] as number };
}

/** The intersection of the lists. Items of a complete list below the floor of another are kept. */
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
