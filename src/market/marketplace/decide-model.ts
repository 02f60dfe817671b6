import { noteAction } from '../../base/db/audit-log.ts'
import type { Sql } from '../../base/db/pool.ts'
import { ApiError } from '../../base/domain/errors.ts'
import { MODEL_ID, modelIdText } from '../../base/domain/model-id.ts'
import { decideModelId, type ModelIdDecision } from '../supply/hosters/model-ids.ts'

/**
 * Decides whether hosters may sell a model id, with an entry in the audit log. Call it last in a transaction: see `noteAction`. Throws
 * `invalid_value` for a text that is no model id.
 *
 * @param address of the client; null for the command line
 */
export async function decideModel(sql: Sql, decision: ModelIdDecision, address: string | null): Promise<void> {
  const { modelId, state, reason, personId } = decision
  if (!MODEL_ID.test(modelId))
    throw new ApiError('invalid_value', { message: `"model" must be ${modelIdText}.`, param: 'model' })
  await decideModelId(sql, decision)
  const action = state === 'approved' ? 'model.approved' : 'model.refused'
  await noteAction(sql, { action, personId, subject: modelId, detail: { reason }, address })
}
