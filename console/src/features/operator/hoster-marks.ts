/** How the states of hosters look. */
export const hosterMarks = {
  applied: 'warn',
  pending: 'warn',
  verified: 'warn',
  active: 'ok',
  paused: 'off',
  suspended: 'danger',
  retired: 'off',
} as const
