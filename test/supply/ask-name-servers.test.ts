import { execFileSync } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { closeSync, mkdtempSync, open, openSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askNameServers, createPinnedLookup } from '../../src/wire/egress/pinned-lookup.ts'

/** The records of a name server on a real socket. It does not answer for other names. */
const records: Record<string, { A?: string; AAAA?: string } | 'unknown' | 'failing'> = {
  'both.dev': { A: '1.1.1.1', AAAA: '2606:4700::1111' },
  'old.dev': { A: '1.1.1.1' },
  'new.dev': { AAAA: '2606:4700::1111' },
  'mail.dev': {},
  'none.dev': 'unknown',
  'broken.dev': 'failing',
  'inside.dev': { A: '127.0.0.1' },
}
const server = createSocket('udp4')
let resolveAll: ReturnType<typeof askNameServers>

beforeAll(async () => {
  server.on('message', (query, { port, address }) => {
    const answer = answerTo(query)
    if (answer !== undefined) server.send(answer, port, address)
  })
  server.bind(0, '127.0.0.1')
  await once(server, 'listening')
  resolveAll = askNameServers([`127.0.0.1:${server.address().port}`])
})
afterAll(() => {
  server.close()
})

test('finds addresses of both families or of one', async () => {
  const v4 = { address: '1.1.1.1', family: 4 }
  const v6 = { address: '2606:4700::1111', family: 6 }
  expect(await resolveAll('both.dev')).toEqual([v4, v6])
  expect(await resolveAll('old.dev')).toEqual([v4])
  expect(await resolveAll('new.dev')).toEqual([v6])
  expect(await resolveAll('mail.dev')).toEqual([])
})

test('gives the reason when there is no address', async () => {
  await expect(resolveAll('none.dev')).rejects.toMatchObject({ code: 'ENOTFOUND' })
  const noWord = { code: 'EAI_AGAIN', message: expect.stringContaining('ESERVFAIL') }
  await expect(resolveAll('broken.dev')).rejects.toMatchObject(noWord)
  await expect(resolveAll('silent.dev')).rejects.toMatchObject({
    ...noWord,
    message: expect.stringContaining('ETIMEOUT'),
  })
})

test('a socket does not connect to this machine through a public name', async () => {
  const socket = connect({ host: 'inside.dev', port: 9, lookup: createPinnedLookup(resolveAll) })
  const [error] = await once(socket, 'error')
  expect(error.code).toBe('EADDRNOTPUBLIC')
})

test('needs no thread, so one silent name cannot block the others', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'switchyard-threads-'))
  // Opening a pipe for reading blocks a thread until the pipe is opened for writing. There are four threads.
  const pipes = [1, 2, 3, 4].map(name => join(directory, String(name)))
  try {
    execFileSync('mkfifo', pipes)
    const opened = pipes.map(pipe => promisify(open)(pipe, 'r'))
    try {
      expect(await resolveAll('old.dev')).toEqual([{ address: '1.1.1.1', family: 4 }])
    } finally {
      for (const pipe of pipes) closeSync(openSync(pipe, 'w'))
      for (const fd of await Promise.all(opened)) closeSync(fd)
    }
  } finally {
    rmSync(directory, { recursive: true })
  }
})

/** Builds an answer as in RFC 1035, 4.1, with the parts needed here. */
function answerTo(query: Buffer): Buffer | undefined {
  const labels: string[] = []
  let at = 12
  for (let length = query[at]!; length > 0; length = query[at]!) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length))
    at += 1 + length
  }
  const record = records[labels.join('.').toLowerCase()]
  if (record === undefined) return undefined
  const type = query.readUInt16BE(at + 1)
  const data = typeof record === 'string' ? undefined : type === 1 ? v4Bytes(record.A) : v6Bytes(record.AAAA)
  const code = record === 'unknown' ? 3 : record === 'failing' ? 2 : 0
  const head = Buffer.alloc(12)
  head.writeUInt16BE(query.readUInt16BE(0), 0)
  // An answer, recursion desired and available.
  head.writeUInt16BE(0x8180 | code, 2)
  head.writeUInt16BE(1, 4)
  head.writeUInt16BE(data === undefined ? 0 : 1, 6)
  const question = query.subarray(12, at + 5)
  if (data === undefined) return Buffer.concat([head, question])
  const facts = Buffer.alloc(12)
  // A pointer to the name in the question.
  facts.writeUInt16BE(0xc00c, 0)
  facts.writeUInt16BE(type, 2)
  facts.writeUInt16BE(1, 4)
  facts.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, question, facts, data])
}

function v4Bytes(address: string | undefined): Buffer | undefined {
  return address === undefined ? undefined : Buffer.from(address.split('.').map(Number))
}

/** Parses an address that contains one `::`. */
function v6Bytes(address: string | undefined): Buffer | undefined {
  if (address === undefined) return undefined
  const [start, end] = address.split('::').map(part => part.split(':').map(group => group.padStart(4, '0')))
  const middle = Array<string>(8 - start!.length - end!.length).fill('0000')
  return Buffer.from([...start!, ...middle, ...end!].join(''), 'hex')
}
