/** The name of a node without what all have in common. */
export function shortUrl(url: string): string {
  return url.replace(/^https?:\/\//, "");
}
