// An agent that streams its words, calls tools, and asks a person before a tool changes something.
import { flow } from "rondo";

type Turn = { readonly tool: string; readonly query: string } | { readonly answer: string };

/**
 * A fake model, which is part of the example: it gives the same words every time, and needs no network. A real one goes here: call your
 * provider, and yield the words as they come.
 */
async function* think(question: string, seen: readonly string[]): AsyncGenerator<string, Turn> {
  const [text, turn]: [string, Turn] =
    seen.length === 0
      ? ["Let me look for the order. ", { tool: "look up", query: question }]
      : seen.length === 1
        ? ["It never arrived, so I would refund it. ", { tool: "refund", query: "A-17" }]
        : ["Here is what I did. ", { answer: `${question} ${seen.at(-1)}.` }];
  for (const word of text.split(/(?<= )/)) {
    await new Promise((resolve) => setTimeout(resolve, 30));
    yield word;
  }
  return turn;
}

const tools: Readonly<Record<string, (query: string) => string>> = {
  "look up": () => "one order, A-17",
  refund: (query) => `${query} is refunded`,
};

export const chat = flow("chat", async ({ step, stream, publish, waitFor }, input: { question: string }) => {
  const seen: string[] = [];
  for (let round = 1; round <= 20; round++) {
    const turn = await step(`think ${round}`, async () => {
      const out = stream("words");
      const words = think(input.question, seen);
      for (;;) {
        const next = await words.next();
        if (next.done === true) return next.value;
        await out.write(next.value);
      }
    });
    if ("answer" in turn) return turn.answer;
    const { tool, query } = turn;
    if (tool === "refund") {
      publish({ asks: `${tool} ${query}` });
      const { name } = await waitFor(`approval ${round}`, { signal: ["approve", "reject"], timeout: "2d" });
      publish({ asks: null });
      if (name === "reject") {
        seen.push(`${query} was not refunded`);
        continue;
      }
    }
    seen.push(await step(`${tool} ${round}`, () => tools[tool]?.(query) ?? "no such tool"));
  }
  return "There is no answer after 20 rounds.";
});
