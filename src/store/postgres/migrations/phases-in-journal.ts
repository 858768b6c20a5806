/**
 * The commit of write-commit.ts, with one thing more. Most changes of a head are of its phase alone, and a change of a
 * row is the dearest part of a commit; so the phase travels with the journal's rows, which are appended anyway. The
 * phase of the last row counts; where it has none, the head's is right. A head that is written wholly begins anew.
 * Nodes of older versions write heads wholly and rows without a phase, which is the same thing.
 */
export const PHASES_IN_JOURNAL = String.raw`
  ALTER TABLE journal ADD COLUMN IF NOT EXISTS phase text;

  CREATE FUNCTION write_commit_2(
    p_lock int, p_generation text, p_owner text, p_partitions int[], p_epochs bigint[], p_skipped int[],
    p_taken text,
    c_id text, c_partition int[], c_epoch bigint[], c_workflow text, c_hash text, c_project text, c_status text,
    c_phase text, c_want text, c_priority int[], c_created_at bigint[], c_finished_at bigint[], c_tags text,
    c_error text,
    j_ref bigint[], j_seq int[], j_count int[], j_at bigint[], j_chain text, j_body text,
    j_phase text,
    h_e bigint[], h_epoch bigint[], h_status text, h_phase text, h_want text, h_priority int[],
    h_finished_at bigint[], h_tags text, h_error text,
    t_e bigint[], t_epoch bigint[],
    has_marks boolean, tc_e bigint[], tc_timer text, ts_ref bigint[], ts_timer text, ts_due bigint[],
    ts_partition int[], o_ref bigint[], o_mark text, o_tasks bigint[], s_ref bigint[], s_seq int[],
    s_fold_version int[], s_chain text, s_body text,
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
      INSERT INTO journal (e, seq, count, at, chain, body, phase)
      SELECT CASE WHEN ref < 0 THEN created[-ref] ELSE ref END, coalesce(seq, j_seq[1]), coalesce(count, j_count[1]),
        coalesce(at, j_at[1]), nullif(coalesce(chain, j_chain), E'\x02'), coalesce(body, j_body),
        nullif(coalesce(phase, j_phase), E'\x02')
      FROM unnest(j_ref, j_seq, j_count, j_at, string_to_array(j_chain, E'\x1f'), string_to_array(j_body, E'\x1f'),
        string_to_array(j_phase, E'\x1f')) AS j (ref, seq, count, at, chain, body, phase)
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
        s_ref, s_seq, s_fold_version, s_chain, s_body, NULL, NULL, NULL);
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
