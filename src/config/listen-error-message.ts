/** Says in words why a port cannot be had, unless somebody else has it. */
export function listenErrorMessage(
  error: NodeJS.ErrnoException,
  { host, port }: { host: string; port: number },
): string {
  switch (error.code) {
    case 'EADDRNOTAVAIL':
      return `This machine has no address ${host}. Set HOST or server.host to one it has.`
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `The name ${host} does not resolve. Set HOST or server.host to an address of this machine.`
    case 'EACCES':
      return `This user may not listen on port ${port}. Set PORT or server.port to one from 1024 on.`
    default:
      return `Cannot listen on port ${port} of ${host}: ${error.message}. Set HOST and PORT, or server.host and server.port.`
  }
}
