// Code for the topics of repo.json: each function gets a command, what it returns is the result on its receipt.
import { topic } from "rondo";

export const embed = topic<{ repo: string }>("LEXI_CMD_EMBED", ({ cmd, log }) => {
  log(`embedding ${cmd.cmd_data.repo}`);
  return { vectors: 1_024, at: `embeddings/${cmd.cmd_data.repo}` };
});

let calls = 0;

/** Fails the first time, to show what a retry looks like. */
export const index = topic<{ from: string; vectors: number }>("LEXI_CMD_INDEX", ({ cmd }) => {
  calls++;
  if (calls === 1) throw new Error("the index is busy");
  return { index: `${cmd.cmd_data.from}.idx`, entries: cmd.cmd_data.vectors };
});

export const announce = topic<{ text: string }>("LEXI_CMD_ANNOUNCE", ({ cmd }) => ({
  said: cmd.cmd_data.text,
}));
