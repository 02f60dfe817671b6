import { Notifications } from '@mantine/notifications'

/** Where notices appear. */
export function Notices() {
  return <Notifications position="bottom-right" />
}
