import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'

// npm run lock: brings package-lock.json up to date with package.json. It runs on the Node of the machine, because nothing
// can be installed before.
//
// npm leaves out an optional package whose `engines` do not fit the Node that npm runs on. That is the Node of the machine
// during a first start, while the package will run on the pinned one. So the packages that exist for one platform only,
// such as the program inside of a compiler, have no `engines` here.

const { status } = spawnSync('npm', ['install', '--package-lock-only', '--no-audit', '--no-fund'], { stdio: 'inherit' })
if (status !== 0) process.exit(1)
const path = new URL('../package-lock.json', import.meta.url)
const lock = JSON.parse(readFileSync(path, 'utf8'))
for (const entry of Object.values(lock.packages)) if (entry.optional && (entry.os || entry.cpu)) delete entry.engines
writeFileSync(path, `${JSON.stringify(lock, null, 2)}\n`)
