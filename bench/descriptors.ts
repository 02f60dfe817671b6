import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export type Descriptors = {
  all: number
  /** Established connections to or from one of the ports. The other descriptors are the ones that a process could leak. */
  connections: number
}

/** Counts the open descriptors of a process that uses IPv4 (proc_pid_fd(5), proc_pid_net(5)); null on systems without /proc. */
export function readDescriptors(pid: number, ports: Set<number>): Descriptors | null {
  let descriptors: string[]
  try {
    descriptors = readdirSync(`/proc/${pid}/fd`)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  }
  const established = establishedInodes(pid, ports)
  const connections = descriptors.filter(descriptor => {
    const inode = /^socket:\[(\d+)\]$/.exec(targetOf(`/proc/${pid}/fd/${descriptor}`))?.[1]
    return inode !== undefined && established.has(inode)
  })
  return { all: descriptors.length, connections: connections.length }
}

/** The kernel's number of the TCP state, in hexadecimal. */
const ESTABLISHED = '01'

function establishedInodes(pid: number, ports: Set<number>): Set<string> {
  const inodes = new Set<string>()
  const lines = readFileSync(`/proc/${pid}/net/tcp`, 'utf8').trimEnd().split('\n').slice(1)
  for (const line of lines) {
    const [, local = '', remote = '', state, , , , , , inode] = line.trim().split(/\s+/)
    if (state === ESTABLISHED && (ports.has(portOf(local)) || ports.has(portOf(remote)))) inodes.add(inode!)
  }
  return inodes
}

/** Parses addresses of the form `0100007F:1F90`. */
function portOf(address: string): number {
  return Number.parseInt(address.slice(address.indexOf(':') + 1), 16)
}

/** Returns the target of a descriptor, or an empty string when it was closed. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link)
  } catch {
    return ''
  }
}
