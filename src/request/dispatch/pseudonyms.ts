import { createHmac } from 'node:crypto'
import type { ChatJob } from '../../base/domain/chat-job.ts'
import type { SealingKeys } from '../../base/domain/sealing-keys.ts'

/**
 * Returns a request as a hoster gets it: without the names by which a client tells its own users and conversations
 * apart.
 */
export type Pseudonymise = (job: ChatJob, hosterId: string, customerId: string) => ChatJob

/**
 * The fields of a request that may contain a name, an e-mail address or an id of a person. Servers only compare their
 * values: to find the cache of a conversation, or to report abuse by one user.
 */
const identifiers = ['user', 'safety_identifier', 'prompt_cache_key'] as const

/**
 * Replaces each identifier by a keyed hash. The same hoster always gets the same pseudonym for the same value of a
 * customer, so that prompt caches work. Two hosters, or two customers with the same value, have different ones, which
 * nobody can link without the key.
 *
 * @param keys derived from the master keys, so that all nodes agree. After a rotation, all pseudonyms are others
 */
export function createPseudonyms(keys: Pick<SealingKeys, 'current'>): Pseudonymise {
  return (job, hosterId, customerId) => {
    const found = identifiers.filter(name => job.forward[name] !== undefined)
    if (found.length === 0) return job
    const pseudonyms = found.map(name => {
      const text = JSON.stringify([hosterId, customerId, name, job.forward[name]])
      return [name, createHmac('sha256', keys.current).update(text).digest('base64url')]
    })
    return { ...job, forward: { ...job.forward, ...Object.fromEntries(pseudonyms) } }
  }
}
