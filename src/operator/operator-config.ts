import { noteAction } from '../base/db/audit-log.ts'
import type { Pool } from '../base/db/pool.ts'
import type { ConfigReload } from '../base/domain/config-reload.ts'
import { ApiError } from '../base/domain/errors.ts'
import type { parseConfigReload, ReloadedConfig } from '../wire/api/operator/config.ts'
import { type Actor, act } from './operator-action.ts'

/** The configuration file, as operators read it again. */
export interface OperatorConfigService {
  /**
   * Reads the configuration again, on the machine of this node. Rejects with ApiError `invalid_value` that names each mistake; then
   * nothing has changed.
   */
  reload(actor: Actor, order: ReturnType<typeof parseConfigReload>): Promise<ReloadedConfig>
}

export function createOperatorConfig({
  pool,
  reloadConfig,
}: {
  readonly pool: Pool
  readonly reloadConfig: () => Promise<ConfigReload>
}): OperatorConfigService {
  return {
    reload: (actor, { reason }) =>
      act(pool, actor, async sql => {
        const reloaded = await reloadConfig()
        if (reloaded.problem !== null)
          throw new ApiError('invalid_value', { message: `Nothing was changed. ${reloaded.problem}` })
        const { file, changes, keysReplaced, needsRestart } = reloaded
        const result = {
          file,
          changes: [...changes],
          keys_replaced: [...keysReplaced],
          needs_restart: [...needsRestart],
        }
        await noteAction(sql, {
          action: 'config.reloaded',
          personId: actor.personId,
          keyId: actor.keyId,
          subject: file ?? 'no file',
          detail: {
            reason,
            ...result,
            changes: result.changes.slice(0, NOTED_MAX),
          },
          address: actor.address,
        })
        return result
      }),
  }
}

/** A file may have thousands of models. */
const NOTED_MAX = 50
