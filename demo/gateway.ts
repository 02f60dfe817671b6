import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createWriteStream, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

const command = fileURLToPath(new URL('../bin/switchyard', import.meta.url))

/** The gateway of the demo, a process of its own. */
export interface DemoGateway {
  readonly origin: string
  /** Sets the password of the operator, once. */
  readonly welcomeLink: string
  /** Runs a command of the gateway's command line and returns what it prints. */
  run(...args: string[]): Promise<string>
  /** Starts `switchyard host` with the key of a hoster. */
  startAgent(keyFile: string, upstream: string): ChildProcess
  /** Resolves when the process ends by itself. */
  readonly ended: Promise<unknown>
  stop(): Promise<void>
}

/** Starts a gateway with its data in `directory`. */
export async function startGateway(
  directory: string,
  config: object,
  port: number,
  onStarted: (pid: number) => void,
): Promise<DemoGateway> {
  const configPath = join(directory, 'switchyard.yaml')
  // JSON is YAML.
  writeFileSync(configPath, JSON.stringify(config))
  // biome-ignore lint/style/noProcessEnv: the environment of child processes
  const inherited = process.env
  const env = {
    ...inherited,
    SWITCHYARD_DATA: join(directory, 'data'),
    SWITCHYARD_CONFIG: configPath,
    METRICS_PORT: '0',
    DATABASE_URL: '',
  }
  const gateway = spawn(command, ['start', '--port', String(port)], { env, stdio: ['ignore', 'pipe', 'pipe'] })
  onStarted(gateway.pid!)
  const log = createWriteStream(join(directory, 'gateway.log'))
  gateway.stderr.pipe(log)
  const ended = once(gateway, 'close')
  const welcomeLink = await readLink(gateway)
  gateway.stdout.pipe(log)
  return {
    origin: new URL(welcomeLink).origin,
    welcomeLink,
    ended,
    async run(...args) {
      const child = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
      let output = ''
      for (const stream of [child.stdout, child.stderr])
        stream.setEncoding('utf8').on('data', text => {
          output += text
        })
      const [code] = await once(child, 'close')
      if (code !== 0) throw new Error(`switchyard ${args.join(' ')} failed:\n${output}`)
      return output
    },
    startAgent(keyFile, upstream) {
      const args = ['host', '--gateway', new URL(welcomeLink).origin, '--key-file', keyFile, '--upstream', upstream]
      const agent = spawn(command, args, { env, stdio: ['ignore', 'pipe', 'pipe'] })
      agent.stdout.pipe(log, { end: false })
      agent.stderr.pipe(log, { end: false })
      return agent
    },
    async stop() {
      gateway.kill('SIGTERM')
      await ended
    },
  }
}

/** Reads the link that the first start prints. */
async function readLink(gateway: ChildProcess): Promise<string> {
  const lines = createInterface({ input: gateway.stdout! })
  for await (const line of lines) {
    const link = /http\S+\/welcome#\S+/.exec(line)?.[0]
    if (link !== undefined) return link
  }
  throw new Error('The gateway ended before it was ready. Is the port taken?')
}
