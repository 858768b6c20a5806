/** Waits until something that can be observed holds, looking again and again; gives up after a generous while. */
export async function until(
  what: string,
  holds: () => boolean | Promise<boolean>,
  options: { readonly limitMs?: number; readonly state?: () => unknown } = {},
): Promise<void> {
  const { limitMs = 100_000, state } = options;
  const giveUpAt = Date.now() + limitMs;
  while (!(await holds())) {
    if (Date.now() > giveUpAt) {
      const seen = state === undefined ? "" : `\n${JSON.stringify(await state(), null, 1).slice(0, 4_000)}`;
      throw new Error(`waited in vain: ${what}${seen}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
}
