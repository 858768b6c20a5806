/** The URL of a node without the parts that all URLs share. */
export function shortUrl(url: string): string {
  return url.replace(/^https?:\/\//, "");
}
