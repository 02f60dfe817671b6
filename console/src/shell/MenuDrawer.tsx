import { t } from '@lingui/core/macro'
import { Drawer } from '@mantine/core'
import type { ReactNode } from 'react'

/** The rest of the navigation, on a phone. */
export function MenuDrawer({
  isOpen,
  onClose,
  children,
}: {
  isOpen: boolean
  onClose: () => void
  children: ReactNode
}) {
  return (
    <Drawer opened={isOpen} onClose={onClose} title={t`Menu`} position="bottom" size="auto">
      {children}
    </Drawer>
  )
}
