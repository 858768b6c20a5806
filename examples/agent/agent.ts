// An agent that calls tools until it is done. A person must approve the tools that change something.
import { flow } from "rondo";

type Turn = { readonly tool: string; readonly query: string } | { readonly answer: string };

/** Stands for a model: it looks the order up, asks for a refund, and then answers. */
function think(question: string, seen: readonly string[]): Turn {
  if (seen.length === 0) return { tool: "look up", query: question };
  if (seen.length === 1) return { tool: "refund", query: "A-17" };
  return { answer: `${question}: ${seen.at(-1)}` };
}

const tools: Readonly<Record<string, (query: string) => string>> = {
  "look up": (query) => `one order for "${query}"`,
  refund: (query) => `${query} is refunded`,
};

export const agent = flow("agent", async ({ step, waitFor }, input: { question: string }) => {
  const seen: string[] = [];
  for (let round = 1; round <= 20; round++) {
    const turn = await step(`think ${round}`, { retry: { attempts: 5 } }, () => think(input.question, seen));
    if ("answer" in turn) return turn.answer;
    const { tool, query } = turn;
    if (tool === "refund") {
      const { name } = await waitFor(`approval ${round}`, { signal: ["approve", "reject"], timeout: "2d" });
      if (name === "reject") {
        seen.push(`${tool} was rejected`);
        continue;
      }
    }
    seen.push(
      await step(
        `${tool} ${round}`,
        { retry: { attempts: 3 } },
        () => tools[tool]?.(query) ?? "no such tool",
      ),
    );
  }
  return "no answer within 20 rounds";
});
