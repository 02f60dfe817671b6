import type { Command } from 'commander'
import { workersArgument } from './arguments.ts'
import { createCommand, createSession } from './command.ts'

export function startCommand(): Command {
  return createCommand('start', 'Run the gateway until SIGTERM or Ctrl-C', [
    'start',
    'start --config production.yaml',
    'start --workers 4',
  ])
    .option('--workers <n>', 'worker processes behind one port, 1 to 64; default: server.workers', workersArgument)
    .action(async options => {
      const { config } = createSession(options)
      const workers: number = options.workers ?? config.server.workers
      // Imported on demand: the server takes long to load, and neither the other commands nor a primary need it.
      if (workers === 1) {
        const { main } = await import('../start/main.ts')
        await main(config)
      } else {
        const { primary } = await import('../start/primary.ts')
        await primary({ ...config, server: { ...config.server, workers } })
      }
    })
}
