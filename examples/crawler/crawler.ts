// A crawler: each page adds the pages that it links to, and every page is read once, though links lead in circles. The web is
// made up, so that the number of pages is known.
import { workflow } from "rondo";

/** The links of a page: two that lead further, one back to an earlier page, and one to a page that many others link to. */
function linksOf(page: number, pages: number): number[] {
  return [page * 2 + 1, page * 2 + 2, Math.floor(page / 3), (page * 7) % 100].map((link) => link % pages);
}

export const crawler = workflow<{ pages: number }>({ name: "crawler" })
  .phase("crawl", {
    tasks: ["https://example.org/0"],
    identity: (url) => url,
    adds: true,
    process: ({ task: url, input, add }) => {
      const links = linksOf(Number(url.slice(url.lastIndexOf("/") + 1)), input.pages);
      add(...links.map((page) => `https://example.org/${page}`));
      return links.length;
    },
  })
  .returns(async ({ phases }) => ({
    pages: phases.crawl.count,
    links: await phases.crawl.reduce((sum, links) => sum + links, 0),
  }));
