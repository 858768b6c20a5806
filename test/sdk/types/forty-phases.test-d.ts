/** Forty phases in one chain must compile quickly, each seeing those before it. Compiled by tsc, never run. */
import { z } from "zod";
import { handler } from "../../../src/sdk/handler.ts";
import { workflow } from "../../../src/sdk/workflow.ts";
import { same } from "../../fixtures/sdk/same-type.ts";

export const forty = workflow({ name: "forty", input: z.object({ bucket: z.string() }) })
  .phase("p1", {
    enumerate: ({ input }) => [{ key: input.bucket }],
    process: ({ task }) => ({ at1: task.key.length }),
  })
  .phase("p2", {
    async *enumerate({ phases, input }) {
      yield { k2: phases.p1.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at2: task.k2, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p3", {
    async *enumerate({ phases, input }) {
      yield { k3: phases.p2.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at3: task.k3, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p4", {
    a: handler({
      enumerate: ({ phases }) => [{ k4: phases.p3.count }],
      process: ({ task }) => ({ at4: task.k4 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p5", {
    async *enumerate({ phases, input }) {
      yield { k5: phases.p4.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at5: task.k5, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p6", {
    async *enumerate({ phases, input }) {
      yield { k6: phases.p5.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at6: task.k6, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p7", {
    async *enumerate({ phases, input }) {
      yield { k7: phases.p6.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at7: task.k7, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p8", {
    a: handler({
      enumerate: ({ phases }) => [{ k8: phases.p7.count }],
      process: ({ task }) => ({ at8: task.k8 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p9", {
    async *enumerate({ phases, input }) {
      yield { k9: phases.p8.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at9: task.k9, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p10", {
    async *enumerate({ phases, input }) {
      yield { k10: phases.p9.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at10: task.k10, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p11", {
    async *enumerate({ phases, input }) {
      yield { k11: phases.p10.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at11: task.k11, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p12", {
    a: handler({
      enumerate: ({ phases }) => [{ k12: phases.p11.count }],
      process: ({ task }) => ({ at12: task.k12 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p13", {
    async *enumerate({ phases, input }) {
      yield { k13: phases.p12.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at13: task.k13, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p14", {
    async *enumerate({ phases, input }) {
      yield { k14: phases.p13.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at14: task.k14, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p15", {
    async *enumerate({ phases, input }) {
      yield { k15: phases.p14.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at15: task.k15, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p16", {
    a: handler({
      enumerate: ({ phases }) => [{ k16: phases.p15.count }],
      process: ({ task }) => ({ at16: task.k16 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p17", {
    async *enumerate({ phases, input }) {
      yield { k17: phases.p16.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at17: task.k17, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p18", {
    async *enumerate({ phases, input }) {
      yield { k18: phases.p17.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at18: task.k18, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p19", {
    async *enumerate({ phases, input }) {
      yield { k19: phases.p18.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at19: task.k19, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p20", {
    a: handler({
      enumerate: ({ phases }) => [{ k20: phases.p19.count }],
      process: ({ task }) => ({ at20: task.k20 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p21", {
    async *enumerate({ phases, input }) {
      yield { k21: phases.p20.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at21: task.k21, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p22", {
    async *enumerate({ phases, input }) {
      yield { k22: phases.p21.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at22: task.k22, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p23", {
    async *enumerate({ phases, input }) {
      yield { k23: phases.p22.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at23: task.k23, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p24", {
    a: handler({
      enumerate: ({ phases }) => [{ k24: phases.p23.count }],
      process: ({ task }) => ({ at24: task.k24 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p25", {
    async *enumerate({ phases, input }) {
      yield { k25: phases.p24.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at25: task.k25, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p26", {
    async *enumerate({ phases, input }) {
      yield { k26: phases.p25.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at26: task.k26, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p27", {
    async *enumerate({ phases, input }) {
      yield { k27: phases.p26.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at27: task.k27, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p28", {
    a: handler({
      enumerate: ({ phases }) => [{ k28: phases.p27.count }],
      process: ({ task }) => ({ at28: task.k28 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p29", {
    async *enumerate({ phases, input }) {
      yield { k29: phases.p28.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at29: task.k29, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p30", {
    async *enumerate({ phases, input }) {
      yield { k30: phases.p29.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at30: task.k30, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p31", {
    async *enumerate({ phases, input }) {
      yield { k31: phases.p30.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at31: task.k31, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p32", {
    a: handler({
      enumerate: ({ phases }) => [{ k32: phases.p31.count }],
      process: ({ task }) => ({ at32: task.k32 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p33", {
    async *enumerate({ phases, input }) {
      yield { k33: phases.p32.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at33: task.k33, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p34", {
    async *enumerate({ phases, input }) {
      yield { k34: phases.p33.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at34: task.k34, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p35", {
    async *enumerate({ phases, input }) {
      yield { k35: phases.p34.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at35: task.k35, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p36", {
    a: handler({
      enumerate: ({ phases }) => [{ k36: phases.p35.count }],
      process: ({ task }) => ({ at36: task.k36 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .phase("p37", {
    async *enumerate({ phases, input }) {
      yield { k37: phases.p36.a.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at37: task.k37, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p38", {
    async *enumerate({ phases, input }) {
      yield { k38: phases.p37.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at38: task.k38, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p39", {
    async *enumerate({ phases, input }) {
      yield { k39: phases.p38.count, at: new Date(0), bucket: input.bucket };
    },
    process: async ({ task, phases }) => ({ at39: task.k39, at: new Date(0), first: phases.p1.total }),
  })
  .phase("p40", {
    a: handler({
      enumerate: ({ phases }) => [{ k40: phases.p39.count }],
      process: ({ task }) => ({ at40: task.k40 }),
    }),
    b: handler({ process: ({ input }) => input.bucket }),
  })
  .returns(async ({ phases }) => {
    for await (const result of phases.p1.results()) same<{ at1: number }>()(result);
    for await (const result of phases.p39.results())
      same<{ at39: number; at: string; first: number }>()(result);
    for await (const result of phases.p40.a.results()) same<{ at40: number }>()(result);
    // @ts-expect-error there are forty
    return phases.p41;
  });
