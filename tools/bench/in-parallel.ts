/** Calls `run` `total` times, `width` of them under way at a time. */
export async function inParallel(
  total: number,
  width: number,
  run: (n: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const lane = async (): Promise<void> => {
    while (next < total) await run(next++);
  };
  await Promise.all(Array.from({ length: Math.min(width, total) }, lane));
}
