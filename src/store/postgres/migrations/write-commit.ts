/**
 * The fenced commit: one call, one transaction.
 * 1. A shared lock on each partition that is touched, in ascending order; whoever takes or releases a partition has
 *    the exclusive one.
 * 2. The fence, read after the locks are had: generation, epoch, owner. If a partition is refused, nothing at all is
 *    written and the answer says which and why; the caller leaves those out and calls again.
 * 3. The writes, with those of write-marks.ts and write-records.ts. The journal's primary key refuses what is there
 *    already. Letters are taken last, after those of this commit are stored.
 *
 * Columns come as arrays: numbers as such, texts joined by U+001F (text.ts), U+0002 for null. A column that is the
 * same in all rows comes as that one value: the array is filled up with nulls, for which the value is put in. `ref`
 * is the number of an execution, or, negative, the place among the created ones. The answer is the numbers of the created ones, 0 for
 * those whose id was taken, and the partitions that were touched. Letters of the skipped partitions stay.
 */
const TEXT = String.raw`
  CREATE FUNCTION {name}(
    p_lock int, p_generation text, p_owner text, p_partitions int[], p_epochs bigint[], p_skipped int[],
    p_taken text,
    c_id text, c_partition int[], c_epoch bigint[], c_workflow text, c_hash text, c_project text, c_status text,
    c_phase text, c_want text, c_priority int[], c_created_at bigint[], c_finished_at bigint[], c_tags text,
    c_error text,
    j_ref bigint[], j_seq int[], j_count int[], j_at bigint[], j_chain text, j_body text,{phase parameter}
    h_e bigint[], h_epoch bigint[], h_status text, h_phase text, h_want text, h_priority int[],
    h_finished_at bigint[], h_tags text, h_error text,
    t_e bigint[], t_epoch bigint[],
    has_marks boolean, tc_e bigint[], tc_timer text, ts_ref bigint[], ts_timer text, ts_due bigint[],
    ts_partition int[], o_ref bigint[], o_mark text, o_tasks bigint[], s_ref bigint[], s_seq int[],
    s_fold_version int[], s_chain text, s_body text,{lease parameters}
    has_records boolean, m_ref bigint[], m_id text, m_partition int[], m_recipient text, m_body text,
    g_ref bigint[], g_attempt text, g_last_n bigint[], g_body text, dc_e bigint[], dc_seq int[], d_ref bigint[], d_seq int[],
    d_tasks text,
    OUT refused text, OUT created bigint[], OUT touched int[]
  ) LANGUAGE plpgsql AS $$
  DECLARE
    taken text[];
  BEGIN
    touched := p_partitions;
    IF p_taken IS NOT NULL THEN
      taken := string_to_array(p_taken, E'\x1f');
      touched := ARRAY(
        SELECT partition FROM letters WHERE id = ANY (taken) AND partition <> ALL (p_skipped)
        UNION SELECT unnest(p_partitions) ORDER BY 1
      );
    END IF;
    PERFORM pg_advisory_xact_lock_shared(p_lock, partition) FROM unnest(touched) AS partition;
    refused := check_fence_1(p_generation, p_owner, touched, p_epochs, taken);
    IF refused IS NOT NULL THEN
      RETURN;
    END IF;

    IF c_id IS NOT NULL THEN
      -- Not by EXISTS, which may be planned as a hash of all executions.
      created := ARRAY(
        SELECT CASE WHEN (SELECT true FROM executions x WHERE x.id = c.id LIMIT 1) THEN 0
          ELSE nextval('executions_e') END
        FROM unnest(string_to_array(c_id, E'\x1f')) AS c (id)
      );
      INSERT INTO executions (e, id, partition, epoch, workflow, hash, project, status, phase, want, priority,
        created_at, finished_at, tags, error)
      SELECT created[i], c.id, c.partition, coalesce(c.epoch, c_epoch[1]), coalesce(c.workflow, c_workflow),
        coalesce(c.hash, c_hash), coalesce(c.project, c_project), coalesce(c.status, c_status),
        nullif(coalesce(c.phase, c_phase), E'\x02'), coalesce(c.want, c_want), coalesce(c.priority, c_priority[1]),
        coalesce(c.created_at, c_created_at[1]), c.finished_at, coalesce(c.tags, c_tags),
        nullif(coalesce(c.error, c_error), E'\x02')
      FROM unnest(string_to_array(c_id, E'\x1f'), c_partition, c_epoch, string_to_array(c_workflow, E'\x1f'),
        string_to_array(c_hash, E'\x1f'), string_to_array(c_project, E'\x1f'), string_to_array(c_status, E'\x1f'),
        string_to_array(c_phase, E'\x1f'), string_to_array(c_want, E'\x1f'), c_priority, c_created_at,
        c_finished_at, string_to_array(c_tags, E'\x1f'), string_to_array(c_error, E'\x1f'))
        WITH ORDINALITY AS c (id, partition, epoch, workflow, hash, project, status, phase, want, priority,
          created_at, finished_at, tags, error, i)
      WHERE created[i] <> 0;
    END IF;

    IF j_ref IS NOT NULL THEN
      INSERT INTO journal (e, seq, count, at, chain, body{phase column})
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(seq, j_seq[1]), coalesce(count, j_count[1]),
        coalesce(at, j_at[1]), nullif(coalesce(chain, j_chain), E'\x02'), coalesce(body, j_body){phase value}
      FROM unnest(j_ref, j_seq, j_count, j_at, string_to_array(j_chain, E'\x1f'), string_to_array(j_body, E'\x1f'){phase list} (ref, seq, count, at, chain, body{phase column})
      WHERE ref > 0 OR created[-ref] <> 0;
    END IF;

    IF h_e IS NOT NULL THEN
      UPDATE executions x
      SET epoch = coalesce(h.epoch, h_epoch[1]), status = coalesce(h.status, h_status),
        phase = nullif(coalesce(h.phase, h_phase), E'\x02'), want = coalesce(h.want, h_want),
        priority = coalesce(h.priority, h_priority[1]), finished_at = h.finished_at, tags = coalesce(h.tags, h_tags),
        error = nullif(coalesce(h.error, h_error), E'\x02')
      FROM unnest(h_e, h_epoch, string_to_array(h_status, E'\x1f'), string_to_array(h_phase, E'\x1f'),
        string_to_array(h_want, E'\x1f'), h_priority, h_finished_at, string_to_array(h_tags, E'\x1f'),
        string_to_array(h_error, E'\x1f')) AS h (e, epoch, status, phase, want, priority, finished_at, tags, error)
      WHERE x.e = h.e;
    END IF;
    IF t_e IS NOT NULL THEN
      UPDATE executions x SET epoch = t.epoch FROM unnest(t_e, t_epoch) AS t (e, epoch) WHERE x.e = t.e;
    END IF;
    IF has_marks THEN
      PERFORM write_marks_1(created, tc_e, tc_timer, ts_ref, ts_timer, ts_due, ts_partition, o_ref, o_mark, o_tasks,
        s_ref, s_seq, s_fold_version, s_chain, s_body, {lease values});
    END IF;
    IF has_records THEN
      PERFORM write_records_1(created, m_ref, m_id, m_partition, m_recipient, m_body, g_ref, g_attempt, g_last_n,
        g_body, dc_e, dc_seq, d_ref, d_seq, d_tasks);
    END IF;
    IF taken IS NOT NULL THEN
      DELETE FROM letters WHERE id = ANY (taken) AND partition = ANY (touched);
    END IF;
  END
  $$;
`;

/** With the phases of phases-in-journal.ts or without; with the lease tables of the first version or without. */
export function writeCommit(parts: { name: string; phases: boolean; leases: boolean }): string {
  const phase = parts.phases
    ? {
        parameter: "\n    j_phase text,",
        column: ", phase",
        value: String.raw`,
        nullif(coalesce(phase, j_phase), E'\x02')`,
        list: String.raw`,
        string_to_array(j_phase, E'\x1f')) AS j`,
      }
    : { parameter: "", column: "", value: "", list: ")\n        AS j" };
  const lease = parts.leases
    ? { parameters: " lc_e bigint[], l_ref bigint[], l_body text,", values: "lc_e, l_ref, l_body" }
    : { parameters: "", values: "NULL, NULL, NULL" };
  return TEXT.replace("{name}", parts.name)
    .replace("{phase parameter}", phase.parameter)
    .replaceAll("{phase column}", phase.column)
    .replace("{phase value}", phase.value)
    .replace("{phase list}", phase.list)
    .replace("{lease parameters}", lease.parameters)
    .replace("{lease values}", lease.values);
}

/** The commit of the first version. */
export const WRITE_COMMIT = writeCommit({ name: "write_commit_1", phases: false, leases: true });
