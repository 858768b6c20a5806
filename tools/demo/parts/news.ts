/**
 * The command chain of the demo: each command refers to the result of the one before, the second result is stored in a state
 * store, and the last one is broadcast to the demo's receiver. Also the code that serves their topics.
 */
import { topic } from "../../../src/index.ts";
import type { WorkflowSubmission } from "../../../src/protocol/command-document.ts";

/** The project of the chain. */
export const NEWS_PROJECT = "demo";

const COUNT = "DEMO_CMD_COUNT";
const WRITE = "DEMO_CMD_WRITE";
const ANNOUNCE = "DEMO_CMD_ANNOUNCE";

/** The expected text of the broadcast. */
export function newsText(tasks: number): string {
  return `${tasks} tasks were done, each of them counted once`;
}

/** The chain, as it is submitted. */
export function newsChain(chain: { id: string; execution: string; tasks: number; receiver: string }) {
  const { id, execution, tasks, receiver } = chain;
  const retry = { attempts: 50, min: "200ms", max: "1s" } as const;
  const step = (target_topic_name: string, cmd: WorkflowSubmission["steps"][number]["cmd"]) => ({
    cmd,
    proc: { target_topic_name, retry },
  });
  return {
    workflow_id: id,
    steps: [
      step(COUNT, { cmd_type: "COUNT_TASKS", cmd_data: { execution, tasks } }),
      step(WRITE, {
        cmd_type: "WRITE_NEWS",
        cmd_data: { tasks: "${steps[0].cmd_result.tasks}" },
        cmd_metadata: {
          cmd_post_op: {
            cmd_result_enrichment: { prop_map: [{ key: "__metadata__", val: { execution } }] },
            cmd_result_persistence: { target_statestore_name: "news", target_statestore_key: execution },
          },
        },
      }),
      step(ANNOUNCE, {
        cmd_type: "ANNOUNCE_NEWS",
        cmd_data: { headline: "${steps[1].cmd_result.headline}" },
        cmd_metadata: {
          cmd_post_op: {
            cmd_result_broadcasts: [{ url: receiver, await: true }],
          },
        },
      }),
    ],
  } satisfies WorkflowSubmission;
}

/** Code for the three topics. */
export const newsTopics = [
  topic<{ execution: string; tasks: number }>(COUNT, ({ cmd, log }) => {
    log(`counting the tasks of ${cmd.cmd_data.execution}`);
    return { tasks: cmd.cmd_data.tasks };
  }),
  topic<{ tasks: number }>(WRITE, ({ cmd }) => ({ headline: newsText(cmd.cmd_data.tasks) })),
  topic<{ headline: string }>(ANNOUNCE, ({ cmd }) => ({ said: cmd.cmd_data.headline })),
];
