// A loyalty account that lives for years: it collects points by signals, and continues as a fresh execution now and then.
import { flow } from "rondo";

interface Account {
  readonly customer: string;
  readonly points: number;
  readonly bookings: number;
}

/** The bookings after which the account continues. Its journal never grows beyond them. */
const BOOKINGS = 10;

export const loyalty = flow("loyalty", async ({ waitFor, continueAs, log }, input: Account) => {
  let { points, bookings } = input;
  for (let n = 1; n <= BOOKINGS; n++) {
    const { name, value } = await waitFor(`booking ${n}`, { signal: ["earn", "close"] });
    if (name === "close") return { customer: input.customer, points, bookings };
    points += Number(value);
    bookings++;
  }
  log(`${input.customer} has ${points} points`);
  return continueAs({ customer: input.customer, points, bookings });
});
