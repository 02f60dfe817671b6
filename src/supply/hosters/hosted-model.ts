import type { Sql } from '../../db/pool.ts'
import type { Feature } from '../../domain/chat-job.ts'
import type { TokenPrice } from '../../domain/money.ts'

/** One model of a hoster with its price. */
export interface HostedModel {
  readonly modelId: string
  /** The model id at the hoster, if it differs. */
  readonly upstreamModel?: string | undefined
  readonly price: TokenPrice
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly features: readonly Feature[]
}

/** A row of `hoster_price`: one version of a price. */
export interface PriceRow {
  model_id: string
  upstream_model: string
  version: number
  input_pico_per_token: bigint
  output_pico_per_token: bigint
  context_tokens: number
  max_output_tokens: number
  features: Feature[]
}

export function hostedModel(row: PriceRow): Required<HostedModel> {
  return {
    modelId: row.model_id,
    upstreamModel: row.upstream_model,
    price: { inputPicoPerToken: row.input_pico_per_token, outputPicoPerToken: row.output_pico_per_token },
    contextTokens: row.context_tokens,
    maxOutputTokens: row.max_output_tokens,
    features: row.features,
  }
}

/** Inserts one version of the price of a model. */
export async function insertPrice(sql: Sql, endpointId: string, version: number, model: HostedModel): Promise<void> {
  await sql.query(
    `INSERT INTO hoster_price (endpoint_id, model_id, version, upstream_model, input_pico_per_token, output_pico_per_token,
                               context_tokens, max_output_tokens, features)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
    [
      endpointId,
      model.modelId,
      version,
      model.upstreamModel ?? model.modelId,
      model.price.inputPicoPerToken,
      model.price.outputPicoPerToken,
      model.contextTokens,
      model.maxOutputTokens,
      [...model.features],
    ],
  )
}
