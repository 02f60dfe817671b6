import type { Sql } from '../../../base/db/pool.ts'
import { type LearnedRatio, type MeterSource, REPORTS_KEPT } from '../learn-ratio.ts'
import type { ReportedUse } from '../meter-audit.ts'

/** The recent reports of one endpoint for one model. */
export interface StoredSource extends MeterSource {
  readonly modelId: string
  readonly endpointId: string
  /** Null: a local server of the operator. */
  readonly hosterId: string | null
  /** Reports that wait for a token audit. */
  readonly waiting: readonly ReportedUse[]
}

/** Reads and locks the sources of a model, until the transaction ends. */
export async function lockSources(sql: Sql, modelId: string): Promise<StoredSource[]> {
  const { rows } = await sql.query<{
    endpoint_id: string
    hoster_id: string | null
    input: number[]
    output: number[]
    waiting: ReportedUse[]
  }>(
    `SELECT endpoint_id, hoster_id, input, output, waiting FROM meter_source WHERE model_id = $1
      ORDER BY endpoint_id FOR UPDATE`,
    [modelId],
  )
  return rows.map(({ endpoint_id: endpointId, hoster_id: hosterId, input, output, waiting }) => {
    return { modelId, endpointId, hosterId, isLocal: hosterId === null, input, output, waiting }
  })
}

/** Writes a source with its latest reports. */
export async function writeSource(sql: Sql, source: StoredSource, nowMs: number): Promise<void> {
  const { modelId, endpointId, hosterId, input, output, waiting } = source
  await sql.query(
    `INSERT INTO meter_source (model_id, endpoint_id, hoster_id, input, output, waiting, updated_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (model_id, endpoint_id) DO UPDATE SET input = excluded.input, output = excluded.output, waiting = excluded.waiting,
       updated_at = excluded.updated_at`,
    [
      modelId,
      endpointId,
      hosterId,
      input.slice(-REPORTS_KEPT),
      output.slice(-REPORTS_KEPT),
      JSON.stringify(waiting),
      new Date(nowMs),
    ],
  )
}

/** Returns the learned ratio of a model; undefined before the first. */
export async function readRatio(sql: Sql, modelId: string): Promise<LearnedRatio | undefined> {
  const { rows } = await sql.query<{ ratio: LearnedRatio }>('SELECT ratio FROM meter_ratio WHERE model_id = $1', [
    modelId,
  ])
  return rows[0]?.ratio
}

export async function writeRatio(sql: Sql, modelId: string, ratio: LearnedRatio, nowMs: number): Promise<void> {
  await sql.query(
    `INSERT INTO meter_ratio (model_id, ratio, updated_at) VALUES ($1, $2, $3)
     ON CONFLICT (model_id) DO UPDATE SET ratio = excluded.ratio, updated_at = excluded.updated_at`,
    [modelId, JSON.stringify(ratio), new Date(nowMs)],
  )
}
