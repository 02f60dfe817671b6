import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tryFileLock } from '../../src/base/db/file-lock.ts'
import { systemScheduler } from '../../src/base/runtime/scheduler.ts'
import {
  type ClaimedDirectory,
  claimAbandonedDirectories,
  claimDirectory,
} from '../../src/money/ledger/journal/claim-directory.ts'
import { createFileDisk } from '../../src/money/ledger/journal/file-disk.ts'
import { openJournal } from '../../src/money/ledger/journal/journal.ts'
import { killJournalChildren, startJournalChild } from './journal-child.ts'

let parent: string
let root: string
const claims: ClaimedDirectory[] = []
beforeEach(async () => {
  parent = await mkdtemp(join(tmpdir(), 'switchyard-claim-'))
  root = join(parent, 'journal')
})
afterEach(async () => {
  killJournalChildren()
  for (const claimed of claims.splice(0)) claimed.release()
  await rm(parent, { recursive: true })
})

async function claim(): Promise<ClaimedDirectory> {
  const claimed = await claimDirectory(root)
  claims.push(claimed)
  return claimed
}

async function claimLeft(): Promise<ClaimedDirectory[]> {
  const claimed = await claimAbandonedDirectories(root)
  claims.push(...claimed)
  return claimed
}

const numbers = (directories: readonly ClaimedDirectory[]) => directories.map(({ path }) => Number(basename(path)))

/** Claims a directory, prints its number, and keeps running. */
const holdScript = `
const { path } = await claimDirectory(root)
console.log(path.split('/').at(-1))
setInterval(() => {}, 60_000)`

describe('claiming a directory', () => {
  it('gives each claim of one process the lowest free number', async () => {
    const [first, second, third] = [await claim(), await claim(), await claim()]
    expect(numbers([first, second, third])).toEqual([1, 2, 3])
    second.release()
    second.release()
    expect(numbers([await claim(), await claim()])).toEqual([2, 4])
  })

  it('waits for its turn', async () => {
    await mkdir(root)
    const turn = tryFileLock(join(root, 'claim.lock'), 'exclusive')!
    let isClaimed = false
    const claiming = claim().then(claimed => {
      isClaimed = true
      return claimed
    })
    await new Promise(setImmediate)
    expect(isClaimed).toBe(false)
    turn.release()
    expect(numbers([await claiming])).toEqual([1])
  })

  it('gives processes that start at the same time one directory each', async () => {
    const children = Array.from({ length: 4 }, () => startJournalChild(holdScript, root))
    const taken = await Promise.all(children.map(child => child.nextLine()))
    expect(taken.sort()).toEqual(['1', '2', '3', '4'])
    expect(numbers([await claim()])).toEqual([5])
    await Promise.all(children.map(child => child.kill()))
  })

  it('refuses a directory to a second process while the first one lives, however the first one ends', async () => {
    const child = startJournalChild(holdScript, root)
    expect(await child.nextLine()).toBe('1')
    expect(numbers([await claim()])).toEqual([2])
    await child.kill()
    expect(numbers([await claim()])).toEqual([1])
  })

  it('keeps the lock when the claimed directory is garbage collected', async () => {
    const child = startJournalChild(
      `import { setFlagsFromString } from 'node:v8'
      import { runInNewContext } from 'node:vm'
      setFlagsFromString('--expose-gc')
      await claimDirectory(root)
      runInNewContext('gc')()
      await new Promise(setImmediate)
      runInNewContext('gc')()
      console.log('collected')
      setInterval(() => {}, 60_000)`,
      root,
    )
    expect(await child.nextLine()).toBe('collected')
    expect(numbers([await claim()])).toEqual([2])
    await child.kill()
  })

  it('says what to do when the directory cannot be used', async () => {
    await writeFile(join(parent, 'file'), '')
    await expect(claimDirectory(join(parent, 'file'))).rejects.toThrow(
      /cannot be kept in .*EEXIST.* SWITCHYARD_DATA\.$/,
    )
    await mkdir(join(root, '1', 'lock'), { recursive: true })
    await expect(claimDirectory(root)).rejects.toThrow(
      /cannot be kept in .*journal\/1 \(unable to open.* SWITCHYARD_DATA\.$/,
    )
    // The next claim must not find the turn taken.
    await rm(join(root, '1'), { recursive: true })
    expect(numbers([await claim()])).toEqual([1])
  })
})

describe('the directory of a dead process', () => {
  it('has every record that was reported as written, and the node id', async () => {
    const child = startJournalChild(
      `const claimed = await claimDirectory(root)
      claimed.writeNodeIds(['node-of-the-dead'])
      const { journal } = openJournal({ disk: createFileDisk(claimed.path), scheduler: systemScheduler, fsync: false, segmentBytes: 2000 })
      for (let number = 0; ; number++) {
        await append(journal, 'record ' + number)
        console.log('record ' + number)
      }`,
      root,
    )
    const reported: string[] = []
    while (reported.length < 500) reported.push((await child.nextLine())!)
    await child.kill()
    for (let line = await child.nextLine(); line !== undefined; line = await child.nextLine()) reported.push(line)

    const claimed = await claim()
    expect(claimed.path).toBe(join(root, '1'))
    expect(claimed.nodes()).toEqual([{ nodeId: 'node-of-the-dead', isDead: true }])
    const disk = createFileDisk(claimed.path)
    const { journal, recovered, damages } = openJournal({ disk, scheduler: systemScheduler, fsync: false })
    const found = recovered.map(({ payload }) => String(payload))
    expect(found).toEqual(found.map((_, index) => `record ${index}`))
    // The last lines may be missing in the pipe, or incomplete.
    expect(found.slice(0, reported.length - 1)).toEqual(reported.slice(0, -1))
    expect(damages).toEqual([])
    for (const { entry } of recovered) journal.forget(entry)
    await journal.close()
    disk.close()
    expect((await readdir(claimed.path)).filter(name => name.endsWith('.log'))).toEqual([])
  })

  it('can be claimed in addition to the own directory, if it has content', async () => {
    const left: [number, string][] = [
      [2, '00000001.log'],
      [3, 'notes.txt'],
      [5, 'node'],
      [10, '00000004.log'],
    ]
    for (const [number, file] of left) {
      await mkdir(join(root, String(number)), { recursive: true })
      await writeFile(join(root, String(number), file), 'something\n')
    }
    await mkdir(join(root, 'not-a-number'))
    await writeFile(join(root, 'not-a-number', '00000001.log'), '')
    const child = startJournalChild(holdScript, root)
    expect(await child.nextLine()).toBe('1')
    expect(numbers(await claimLeft())).toEqual([2, 5, 10])
    expect(numbers(await claimLeft())).toEqual([])
    expect(numbers([await claim()])).toEqual([3])
    expect(await readFile(join(root, '3', 'notes.txt'), 'utf8')).toBe('something\n')
    await child.kill()
  })

  it('is not found when there has been no journal', async () => {
    expect(await claimLeft()).toEqual([])
  })

  it('leaves all directories unlocked when one of them cannot be used', async () => {
    await mkdir(join(root, '1'), { recursive: true })
    await writeFile(join(root, '1', '00000001.log'), '')
    await mkdir(join(root, '2', 'lock'), { recursive: true })
    await expect(claimAbandonedDirectories(root)).rejects.toThrow('SWITCHYARD_DATA')
    expect(numbers([await claim()])).toEqual([1])
  })
})

describe('the nodes of a directory', () => {
  it('are stored until others replace them', async () => {
    const claimed = await claim()
    expect(claimed.nodes()).toEqual([])
    claimed.writeNodeIds(['first', 'second'])
    claimed.release()
    const again = await claim()
    expect(again.nodes()).toEqual([
      { nodeId: 'first', isDead: true },
      { nodeId: 'second', isDead: true },
    ])
    again.writeNodeIds(['third'])
    expect(again.nodes()).toEqual([{ nodeId: 'third', isDead: true }])
    again.writeNodeIds([])
    expect(again.nodes()).toEqual([])
  })

  it('may be alive when the directory is a copy, or was written before a reboot', async () => {
    const original = await claim()
    original.writeNodeIds(['running'])
    const copyRoot = join(root, 'copied')
    await cp(join(root, '1'), join(copyRoot, '1'), { recursive: true })
    const copy = await claimDirectory(copyRoot)
    expect(copy.nodes()).toEqual([{ nodeId: 'running', isDead: false }])
    copy.writeNodeIds(['own'])
    expect(copy.nodes()).toEqual([{ nodeId: 'own', isDead: true }])
    copy.release()
    // The first part of the identity is the id of the boot.
    const path = join(copyRoot, '1', 'node')
    await writeFile(path, (await readFile(path, 'utf8')).replace(/ [^:]*:/, ' another-boot:'))
    const rebooted = await claimDirectory(copyRoot)
    expect(rebooted.nodes()).toEqual([{ nodeId: 'own', isDead: false }])
    rebooted.release()
  })
})
