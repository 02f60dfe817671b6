import { join } from 'node:path'
import type { Sql } from '../base/db/pool.ts'
import { deriveKey, EVIDENCE, findMasterKey, loadMasterKey } from '../base/secrets/master-key.ts'
import { markOf, noteMasterKey, readMark } from '../base/secrets/master-key-mark.ts'
import { type CreditEvidence, createCreditEvidence } from '../money/ledger/credit-evidence.ts'
import type { Session } from './command.ts'
import { Failure } from './failure.ts'

/**
 * Returns the master key, which seals the credentials of hosters. Creates it in the data directory if the
 * database has no mark of one yet. Throws Failure if it is missing or differs from the servers' key, because
 * no server could open what it seals.
 */
export async function requireMasterKey({ config }: Session, sql: Sql): Promise<Buffer> {
  const mark = await readMark(sql)
  if (mark === undefined) {
    const key = loadMasterKey(config)
    await noteMasterKey(sql, key)
    return key
  }
  const key = findMasterKey(config)
  if (key && markOf(key) === mark) return key
  throw new Failure(masterKeyProblem(config, key !== undefined))
}

/** Returns what proves the credit that a command gives. Throws Failure like `requireMasterKey`. */
export async function requireEvidence(session: Session, sql: Sql): Promise<CreditEvidence> {
  return evidenceOf(await requireMasterKey(session, sql))
}

/** Returns what checks the evidence of credit; undefined when this command has not the key of the servers. */
export async function findEvidence({ config }: Session, sql: Sql): Promise<CreditEvidence | undefined> {
  const key = findMasterKey(config)
  return key !== undefined && markOf(key) === (await readMark(sql)) ? evidenceOf(key) : undefined
}

function evidenceOf(masterKey: Buffer): CreditEvidence {
  return createCreditEvidence(deriveKey(masterKey, EVIDENCE))
}

/**
 * Returns the error message for a master key that is missing or differs from the servers' key.
 *
 * @param found whether there is a master key at all
 */
export function masterKeyProblem({ masterKey, dataDir }: Session['config'], found: boolean): string {
  const path = join(dataDir, 'master.key')
  const problem = !found
    ? `${path} is missing`
    : `${masterKey === null ? path : 'SWITCHYARD_MASTER_KEY'} is not the master key that the server last started with`
  return `${problem}. Set SWITCHYARD_DATA or SWITCHYARD_MASTER_KEY to the server's value, or restore the key. To use a new key, start the server with it first.`
}
