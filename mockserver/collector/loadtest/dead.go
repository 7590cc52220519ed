//go:build linux

package main

import "github.com/spf13/cobra"

func newDead() *cobra.Command  { return &cobra.Command{Use: "dead"} }
func newStart() *cobra.Command { return &cobra.Command{Use: "start"} }
