import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test, vi } from 'vitest'
import { openJournals } from '../../src/ledger/journal/open-journals.ts'
import { systemScheduler } from '../../src/runtime/scheduler.ts'

// Went wrong: on a full disk, a node that had been declared dead could not register again and refused all requests (fixed in 30c570f).
test('on a full disk a node can register under a new id and close its journal', async () => {
  const root = await mkdtemp(join(tmpdir(), 'switchyard-journals-'))
  const log = { warn: vi.fn(), error: vi.fn() }
  const open = () => openJournals({ root, scheduler: systemScheduler, fsync: false, maxBytes: 1 << 20, log })
  const journals = await open()
  journals.addNode('first')
  // A directory in place of the file makes the write fail, like a full disk.
  await mkdir(join(root, '1', 'node.next'))
  journals.addNode('second')
  await journals.close({ retired: true })
  expect(log.error).toHaveBeenCalledTimes(2)

  const next = await open()
  expect(next.deadNodes).toEqual(['first'])
  expect(() => next.addNode('third')).toThrow('EISDIR')
  await next.close({ retired: false })
  await rm(root, { recursive: true })
})
