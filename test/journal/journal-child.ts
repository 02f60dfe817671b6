import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'

/** Another process that uses the modules of the journal. */
export interface JournalChild {
  /** The next line that it prints. Undefined when it has ended. */
  nextLine(): Promise<string | undefined>
  /** Ends it with SIGKILL. */
  kill(): Promise<void>
  /** Resolves when it has ended. */
  exited(): Promise<void>
}

const running = new Set<ChildProcess>()

/**
 * Runs `code`, a module with `claimDirectory`, `openJournal`, `append`, `createFileDisk` and
 * `systemScheduler` in scope, and `root`. `fileBytesMax` limits the size of its files, which simulates a disk
 * that fills up.
 */
export function startJournalChild(code: string, root: string, fileBytesMax?: number): JournalChild {
  const limit = fileBytesMax === undefined ? '' : `ulimit -f ${fileBytesMax / 512}; `
  const node = [
    process.execPath,
    '--input-type=module',
    '--eval',
    `${imports}const root = process.argv[1]\n${code}`,
    root,
  ]
  const child = spawn('sh', ['-c', `${limit}exec "$@"`, 'sh', ...node], { stdio: ['ignore', 'pipe', 'inherit'] })
  running.add(child)
  const exit = once(child, 'exit').then(() => void running.delete(child))
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  return {
    nextLine: async () => (await lines.next()).value,
    async kill() {
      child.kill('SIGKILL')
      await exit
    },
    exited: () => exit,
  }
}

/** Ends the processes that a failed test left. */
export function killJournalChildren(): void {
  for (const child of running) child.kill('SIGKILL')
}

const moduleOf = (path: string) => JSON.stringify(new URL(`../../src/${path}`, import.meta.url).href)
const imports = `
import { claimDirectory } from ${moduleOf('money/ledger/journal/claim-directory.ts')}
import { openJournal } from ${moduleOf('money/ledger/journal/journal.ts')}
import { createFileDisk } from ${moduleOf('money/ledger/journal/file-disk.ts')}
import { append } from ${JSON.stringify(new URL('./append.ts', import.meta.url).href)}
import { systemScheduler } from ${moduleOf('base/runtime/scheduler.ts')}
`
