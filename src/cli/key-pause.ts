import { readFileSync } from 'node:fs'
import { type Command, InvalidArgumentError } from 'commander'
import { transaction } from '../base/db/pool.ts'
import { commandLine } from '../base/domain/acting.ts'
import { changeKey, findKeyItself, rotateKey } from '../identity/auth/keys.ts'
import { noteKeyChanged, noteKeyRotated } from '../identity/auth/note-key.ts'
import { readPastedKey } from '../identity/auth/pasted-key.ts'
import { spendByKey } from '../money/usage/spend.ts'
import { GRACE_SECONDS_MAX } from '../wire/api/key-request.ts'
import { createCommand, createSession } from './command.ts'
import { Failure } from './failure.ts'
import { keyJson, keyTable } from './key-figures.ts'
import { resolveKey } from './resolve.ts'
import { withDatabase } from './with-database.ts'

const KEY = ['<key>', 'id, short form as shown by key list, or the key itself'] as const

export function pauseKeyCommand(): Command {
  return createCommand('pause', 'Refuse a key until an operator resumes it; all nodes do so within two seconds', [
    'key pause 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
  ])
    .argument(...KEY)
    .action((text: string, options) => setPaused(text, true, options))
}

export function resumeKeyCommand(): Command {
  return createCommand('resume', 'Let a paused key work again', ['key resume 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11'])
    .argument(...KEY)
    .action((text: string, options) => setPaused(text, false, options))
}

async function setPaused(text: string, isPaused: boolean, options: object): Promise<void> {
  const session = createSession(options)
  const { key, changed } = await withDatabase(session, pool =>
    transaction(pool, async sql => {
      const found = await resolveKey(sql, text)
      const after = await changeKey(sql, found.keyId, { isPaused, byOperator: true })
      if (after === undefined) throw new Failure(`${found.hint} is revoked. Nothing was changed.`)
      await noteKeyChanged(sql, commandLine, found, after)
      const wasSo = isPaused ? found.isPausedByOperator : found.pausedAt === null
      return { key: after, changed: !wasSo }
    }),
  )
  const state = isPaused ? 'paused' : 'not paused'
  session.output.result(
    { key_id: key.keyId, hint: key.hint, customer_id: key.customerId, paused: isPaused, changed },
    `${key.hint} (${key.name}) of ${key.customerEmail} ${changed ? 'is now' : 'was already'} ${state}.`,
  )
}

export function rotateKeyCommand(): Command {
  return createCommand('rotate', 'Replace a key, with the same limits and history; the new one is printed only once', [
    'key rotate 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11',
    'key rotate 0c9e6f0e-3f0a-4d5c-9f51-5d1f0a7c2b11 --grace 7d',
  ])
    .argument(...KEY)
    .option(
      '--grace <time>',
      'how long the former key works too: 90m, 24h, 7d or 0; default: 24h, or 0 for a paused key',
      graceArgument,
    )
    .action(async (text: string, options) => {
      const session = createSession(options)
      const graceSeconds = (options.grace as number | undefined) ?? null
      const rotated = await withDatabase(session, pool =>
        transaction(pool, async sql => {
          const found = await resolveKey(sql, text)
          const rotated = await rotateKey(sql, found.keyId, { graceSeconds })
          if (rotated === undefined) throw new Failure(`${found.hint} is revoked. Nothing was changed.`)
          await noteKeyRotated(sql, commandLine, found, rotated.listing)
          return { ...rotated, former: found }
        }),
      )
      const { key, keyId, hint, former, listing } = rotated
      const formerUntil = listing.formerExpiresAt
      session.output.result(
        {
          ...{ key, key_id: keyId, hint, customer_id: former.customerId },
          ...{ former_hint: former.hint, former_expires_at: formerUntil?.toISOString() ?? null },
        },
        key,
      )
      const end = formerUntil === null ? 'stops now' : `works until ${formerUntil.toISOString()}`
      session.output.note(`The key is shown only this once. The former key ${former.hint} ${end}.`)
      if (listing.pausedAt !== null) session.output.note('The new key is refused until an operator resumes it.')
    })
}

export function findKeyCommand(): Command {
  return createCommand('find', 'Find the key that leaked, by a text with the key itself or its short form', [
    'key find leaked.txt',
    'key find - < leaked.txt',
  ])
    .argument(
      '<file>',
      'file with the key, such as an .env; - reads standard input, so that the key is in no list of processes',
    )
    .action(async (file: string, options) => {
      const session = createSession(options)
      const text = readFileSync(file === '-' ? 0 : file, 'utf8')
      const { key, spend } = await withDatabase(session, async pool => {
        const key = await findKeyItself(pool, readPastedKey(text), null)
        // Never repeat a whole key: the message may end up in a log.
        if (key === undefined) throw new Failure('No customer has this key.')
        return { key, spend: await spendByKey(pool, key.customerId, Date.now()) }
      })
      session.output.result(keyJson(key, spend.get(key.keyId)), keyTable([key], spend, ''))
    })
}

const units = { m: 60, h: 3_600, d: 86_400 } as const

function graceArgument(text: string): number {
  const [, amount, unit] = /^(\d{1,6})([mhd])$/.exec(text) ?? []
  const seconds = text === '0' ? 0 : Number(amount) * units[unit as keyof typeof units]
  if (seconds <= GRACE_SECONDS_MAX) return seconds
  throw new InvalidArgumentError('It must be 90m, 24h, 7d or 0, and at most 30d.')
}
