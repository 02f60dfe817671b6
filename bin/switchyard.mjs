#!/usr/bin/env node
// Runs the command line under the pinned Node, whichever Node this file was started with.
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { fileURLToPath } from 'node:url'
import { pinnedNode, setup } from '../scripts/setup.mjs'

setup()
// The flags and the file as the npm script has them: `node <flags> src/cli.js`.
const { scripts } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
const [, ...words] = scripts.switchyard.split(' ')
const cli = fileURLToPath(new URL(`../${words.pop()}`, import.meta.url))
const child = spawn(pinnedNode, [...words, cli, ...process.argv.slice(2)], { stdio: 'inherit' })

// A signal sent to this process alone has to be passed on. Ctrl-C reaches the child twice this way, once from the terminal;
// npm does the same to what it runs, so the server has to bear it anyway.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', error => {
  console.error(`switchyard: cannot run ${pinnedNode}: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => process.exit(code ?? 128 + (constants.signals[signal] ?? 0)))
