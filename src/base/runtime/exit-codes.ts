/** How a command ends that has not done its work. */
export const EXIT_FAILED = 1
export const EXIT_USAGE = 2
/** Another process is doing the same work. */
export const EXIT_BUSY = 3
