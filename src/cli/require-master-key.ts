import type { Sql } from '../base/db/pool.ts'
import { ownCommand } from '../base/runtime/own-command.ts'
import { joinRing, readMark } from '../base/secrets/key-ring-state.ts'
import { findMasterKeys, hasKeyFile, loadMasterKeys, masterKeyPath } from '../base/secrets/master-key.ts'
import type { MasterKeys } from '../base/secrets/master-keys.ts'
import { type CreditEvidence, createCreditEvidence } from '../money/ledger/credit-evidence.ts'
import type { Session } from './command.ts'
import { Failure } from './failure.ts'

/**
 * Returns the master keys, of which the one that the servers seal with seals. Creates one in the data directory if the
 * database has no mark of one yet. Throws Failure if that key is missing, because no server could open what another seals.
 */
export async function requireMasterKeys({ config }: Session, sql: Sql): Promise<MasterKeys> {
  const mark = await readMark(sql)
  if (mark === undefined) {
    const keys = loadMasterKeys(config)
    await joinRing(sql, keys, true)
    return keys
  }
  const keys = findMasterKeys(config)
  if (keys?.use(mark)) return keys
  throw new Failure(masterKeyProblem(config, keys !== undefined))
}

/** Returns what proves the credit that a command gives. Throws Failure like `requireMasterKeys`. */
export async function requireEvidence(session: Session, sql: Sql): Promise<CreditEvidence> {
  return evidenceOf(await requireMasterKeys(session, sql))
}

/** Like `requireMasterKeys`, but returns undefined when this command has not the key of the servers, and creates none. */
export async function findServerKeys({ config }: Session, sql: Sql): Promise<MasterKeys | undefined> {
  const keys = findMasterKeys(config)
  const mark = await readMark(sql)
  return mark !== undefined && keys?.use(mark) ? keys : undefined
}

export function evidenceOf(masterKeys: MasterKeys): CreditEvidence {
  return createCreditEvidence(masterKeys.derived('evidence of credit'))
}

/**
 * Returns the error message for a master key that is missing or differs from the servers' key.
 *
 * @param found whether there is a master key at all
 */
export function masterKeyProblem({ masterKey, dataDir }: Session['config'], found: boolean): string {
  const path = masterKeyPath(dataDir)
  const problem = !found
    ? `${path} is missing`
    : `${hasKeyFile({ masterKey }) ? path : 'SWITCHYARD_MASTER_KEY'} does not have the master key that the servers seal with`
  return `${problem}. Set SWITCHYARD_DATA or SWITCHYARD_MASTER_KEY to the servers' value, or restore the key. To replace a key, run: ${ownCommand('key-ring rotate')}. If it is lost, run: ${ownCommand('key-ring adopt')}`
}
