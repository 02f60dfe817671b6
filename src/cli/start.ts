import type { Command } from 'commander'
import { loadConfig } from '../start/config/config.ts'
import { portArgument, workersArgument } from './arguments.ts'
import { type CommonOptions, createCommand } from './command.ts'

interface StartOptions extends CommonOptions {
  readonly port?: number
  readonly workers?: number
}

export function startCommand(): Command {
  return createCommand('start', 'Run the gateway until SIGTERM or Ctrl-C', [
    'start',
    'start --port 9000',
    'start --config production.yaml',
    'start --workers 4',
  ])
    .option('--port <n>', 'port to listen on; default: PORT, else server.port', portArgument)
    .option('--workers <n>', 'worker processes behind one port, 1 to 64; default: server.workers', workersArgument)
    .action(async (options: StartOptions) => {
      const read = (isServing: boolean) => {
        const configured = loadConfig({ file: options.config, port: options.port, isServing })
        const { workers = configured.server.workers } = options
        return { ...configured, server: { ...configured.server, workers } }
      }
      const config = read(false)
      const readAgain = () => read(true)
      // Imported on demand: the server takes long to load, and neither the other commands nor a primary need it.
      if (config.server.workers === 1) {
        const { main } = await import('../start/main.ts')
        await main(config, readAgain)
      } else {
        const { primary } = await import('../start/primary.ts')
        await primary(config, readAgain)
      }
    })
}
