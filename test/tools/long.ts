/** How much of something random is tried: more where there is time for it (`npm run test:long`). */
export function effort(often: { readonly usual: number; readonly long: number }): number {
  return process.env["RONDO_TEST_LONG"] === "1" ? often.long : often.usual;
}
