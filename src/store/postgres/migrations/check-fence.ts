/**
 * The fence: which of the partitions this owner does not have in these epochs (by place: partition + 1), as JSON;
 * null if it has all. With them come the letters to be taken, each with its partition. A store of another generation
 * is no place to write at all: that is an error with a code of its own. To be called with the partitions locked.
 */
export const CHECK_FENCE = String.raw`
  CREATE FUNCTION check_generation_1(p_generation text) RETURNS void LANGUAGE plpgsql AS $$
  DECLARE
    current text := (SELECT generation FROM meta);
  BEGIN
    IF current IS DISTINCT FROM p_generation THEN
      RAISE EXCEPTION USING ERRCODE = 'RO001',
        MESSAGE = format('the store is of generation %s, the node of %s', current, p_generation);
    END IF;
  END
  $$;

  CREATE FUNCTION check_fence_1(
    p_generation text, p_owner text, p_partitions int[], p_epochs bigint[], p_taken text[]
  ) RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    refused json;
  BEGIN
    PERFORM check_generation_1(p_generation);
    SELECT json_agg(json_build_object('partition', partition, 'epoch', epoch) ORDER BY partition) INTO refused
    FROM partitions
    WHERE partition = ANY (p_partitions)
      AND (owner IS DISTINCT FROM p_owner OR epoch <> p_epochs[partition + 1]);
    IF refused IS NULL THEN
      RETURN NULL;
    END IF;
    RETURN json_build_object('refused', refused, 'letters', (
      SELECT json_object_agg(id, partition) FROM letters WHERE id = ANY (p_taken)
    ));
  END
  $$;
`;
