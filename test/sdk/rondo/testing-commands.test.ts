// Commands under rondo/testing: results are kept in memory, broadcasts are told to nobody and can be read.
import { topic, workflow } from "rondo";
import { simulate, testRondo } from "rondo/testing";
import { expect, test } from "vitest";

const embed = topic<{ repo: string }>("CMD_EMBED", ({ cmd }) => ({ at: `embeddings/${cmd.cmd_data.repo}` }));
const URL = "https://ui.example.com/hook";

const flow = (more: object = {}) =>
  workflow<{ repo: string }>({ name: "embed" })
    .command("embed", {
      topic: "CMD_EMBED",
      cmd: {
        cmd_type: "EMBED_REPO",
        cmd_data: { repo: "${input.repo}" },
        cmd_metadata: {
          cmd_post_op: {
            cmd_result_persistence: {
              target_statestore_name: "discovery",
              target_statestore_key: "lxi",
              target_statestore_partition_key: "p",
            },
            cmd_result_broadcasts: [{ url: URL, ...more }],
          },
        },
      },
    })
    .returns(({ phases }) => phases.embed.count);

test("a result is kept and told, without any network, also after a crash", async () => {
  await using t = await testRondo({ workflows: [flow(), embed] });
  await t.run("embed", { repo: "lxi" }, { id: "one" });
  await t.settle();
  expect(await t.state("discovery", "lxi", "p")).toEqual({ at: "embeddings/lxi" });
  expect(await t.state("discovery", "lxi")).toBe(undefined);
  expect(t.broadcasts).toMatchObject([{ url: URL, body: { at: "embeddings/lxi" }, status: 204 }]);
  await t.crash();
  expect(await t.state("discovery", "lxi", "p")).toEqual({ at: "embeddings/lxi" });
  expect(t.broadcasts).toHaveLength(1);
});

test("a target that refuses is told again, with the same id, when time moves", async () => {
  let asked = 0;
  await using t = await testRondo({
    workflows: [flow(), embed],
    target: ({ url }) => (url === URL && ++asked < 3 ? 503 : undefined),
  });
  await t.run("embed", { repo: "lxi" }, { id: "one" });
  await t.settle();
  expect(t.broadcasts.map(({ status }) => status)).toEqual([503]);
  await t.clock.advance("1h");
  expect(t.broadcasts.map(({ status }) => status)).toEqual([503, 503, 204]);
  expect(new Set(t.broadcasts.map(({ id }) => id)).size).toBe(1);
  expect(t.events("one").at(-1)?.kind).toBe("workflow.postop.done");
});

test("simulated, a result is told in each run, whatever goes wrong, and always by one id", async () => {
  const { runs, crashes } = await simulate(flow(), {
    seeds: 20,
    workflows: [embed],
    input: { repo: "lxi" },
    check: ({ execution, output, broadcasts }) => {
      expect(execution.status).toBe("done");
      expect(output).toBe(1);
      expect(new Set(broadcasts.map(({ id }) => id)).size).toBe(1);
    },
  });
  expect(runs).toBe(20);
  expect(crashes).toBeGreaterThan(0);
});
